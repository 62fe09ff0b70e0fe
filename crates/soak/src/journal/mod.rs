//! What everybody writes down, one JSON object a line, and how it is read again. The clients in `tests/clients` write the same
//! form.

mod event;

pub use event::{Ask, Event, FaultKind, How, Intent, Line, Parting, Phase, Plan, Sample};

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// Milliseconds since 1970.
#[must_use]
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A file that several processes may append to.
#[derive(Clone, Debug)]
pub struct Journal(Arc<File>);

impl Journal {
    /// Opens one.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Writes one event down, in one piece.
    pub fn note(&self, event: Event) {
        let mut line = serde_json::to_vec(&Line { t: now(), event }).expect("an event is JSON");
        line.push(b'\n');
        // A journal that cannot be written makes the run worthless.
        (&*self.0).write_all(&line).expect("the journal can be written");
    }
}

/// Reads every journal (`*.jsonl`) in a folder, in the order of time.
///
/// A writer that is killed may leave half a line behind; in the ledger, which has many writers, the next line follows on it at once. Half lines
/// are left out, as many as processes were killed.
///
/// # Errors
/// A file that cannot be read, or a line that is no event.
pub fn read(folder: &Path) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut halves = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for (number, text) in text[..whole].lines().enumerate() {
            halves += parse(text, &mut lines).map_err(|error| {
                io::Error::other(format!("{}:{}: {error}: {text}", path.display(), number + 1))
            })?;
        }
    }
    let killed = |line: &&Line| matches!(line.event, Event::ChildKilled { .. } | Event::ClientKilled { .. });
    let killed = lines.iter().filter(killed).count();
    if halves > killed {
        return Err(io::Error::other(format!(
            "{halves} lines are cut short, but {killed} writers were killed"
        )));
    }
    lines.sort_by_key(|line: &Line| line.t);
    Ok(lines)
}

/// Reads one line, or what is whole of several that stand on one. Returns how many are not whole.
fn parse(text: &str, lines: &mut Vec<Line>) -> serde_json::Result<usize> {
    let error = match serde_json::from_str(text) {
        Ok(line) => {
            lines.push(line);
            return Ok(0);
        }
        Err(error) => error,
    };
    let Some(start) = text.rfind("{\"t\":").filter(|start| *start > 0) else { return Err(error) };
    lines.push(serde_json::from_str(&text[start..])?);
    match serde_json::from_str(&text[..start]) {
        // It lacks no more than its end of line.
        Ok(line) => lines.push(line),
        Err(_) => return Ok(1),
    }
    Ok(0)
}

/// The session of a call.
#[must_use]
pub fn session_of(call: &str) -> &str {
    call.rsplit_once('.').map_or(call, |(session, _)| session)
}

/// The client of a call or a session.
#[must_use]
pub fn client_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(client, _)| client)
}

/// The text that the tool writes for a call: its name again and again.
#[must_use]
pub fn payload(call: &str, size: u64) -> String {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let unit = format!("{call}|");
    let mut text = unit.repeat(size.div_ceil(unit.len()));
    text.truncate(size);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let how = How::Result { of: "a".into(), good: true, asked: "none".into() };
        let line = Line { t: 5, event: Event::End { call: "raw-0.1/0.2.3".into(), how } };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(
            text,
            r#"{"t":5,"e":"end","call":"raw-0.1/0.2.3","how":"result","of":"a","good":true,"asked":"none"}"#
        );
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
        let sample = Line { t: 1, event: Event::Sample(Sample::default()) };
        assert_eq!(serde_json::from_str::<Line>(&serde_json::to_string(&sample).unwrap()).unwrap(), sample);
    }

    #[test]
    fn half_a_line_spoils_no_other_one() {
        let event = Event::Response { call: "raw-0.1/0.2.3".into() };
        let whole = serde_json::to_string(&Line { t: 5, event }).unwrap();
        let read = |text: &str| {
            let mut lines = Vec::new();
            parse(text, &mut lines).map(|halves| (lines.len(), halves)).ok()
        };
        assert_eq!(read(&whole), Some((1, 0)));
        assert_eq!(read(&format!("{whole}{whole}")), Some((2, 0)));
        assert_eq!(read(&format!("{}{whole}", &whole[..20])), Some((1, 1)));
        assert_eq!(read(&whole[..20]), None);
        assert_eq!(read(&format!("{whole}{}", &whole[..20])), None);
    }

    #[test]
    fn names_say_whose() {
        assert_eq!(session_of("ts1-0.3/1.2.9"), "ts1-0.3/1.2");
        assert_eq!(client_of("ts1-0.3/1.2.9"), "ts1-0.3");
        assert_eq!(payload("ab", 7), "ab|ab|a");
    }
}
