//! Mailboxes: letters put in, boxes dropped.

use super::{Tx, int, moved, nat, row::cost};
use bowline_proto::cursor::StreamId;
use bowline_store::Unavailable;
use rusqlite::{OptionalExtension as _, Result};
use std::time::Duration;

impl Tx<'_> {
    /// Puts a letter into the box of a stream. Says whether it is new.
    pub(crate) fn put_letter(
        &mut self,
        stream: StreamId,
        key: &str,
        payload: &[u8],
        ttl: Duration,
    ) -> Result<Result<bool, Unavailable>> {
        let until = self.now.plus(ttl).0;
        let there = self
            .conn
            .prepare_cached("SELECT n, letters, bytes, deadline > ? FROM mailboxes WHERE stream = ?")?
            .query_row((self.now.0, stream.as_bytes()), |row| {
                Ok((row.get(0)?, nat(row.get(1)?), nat(row.get(2)?), row.get::<_, bool>(3)?))
            })
            .optional()?;
        let living = match there {
            Some((n, letters, bytes, true)) => Some((n, letters, bytes)),
            Some((n, _, _, false)) => {
                self.drop_box(n)?;
                None
            }
            None => None,
        };
        let (letters, bytes) = living.map_or((0, 0), |(_, letters, bytes)| (letters, bytes));
        if let Some((n, ..)) = living {
            let known = self
                .conn
                .prepare_cached("SELECT 1 FROM letters WHERE box = ? AND name = ?")?
                .exists((n, key))?;
            if known {
                self.write(
                    "UPDATE mailboxes SET deadline = ? WHERE n = ? AND deadline < ?",
                    (until, n, until),
                )?;
                return Ok(Ok(false));
            }
        } else if self.state.totals.mailboxes >= self.limits.mailboxes {
            return Ok(Err(self.no_room("mailboxes", self.limits.mailboxes)));
        }
        let added = cost(1, (key.len() + payload.len()) as u64);
        let limits = self.limits;
        for (what, limit, sum) in [
            ("letters of one mailbox", limits.letters, letters + 1),
            ("bytes of one mailbox", limits.letter_bytes, bytes + added),
            ("bytes of all mailboxes", limits.all_letter_bytes, self.state.totals.letter_bytes + added),
        ] {
            if sum > limit {
                return Ok(Err(self.no_room(what, limit)));
            }
        }
        let n = match living {
            Some((n, ..)) => n,
            None => {
                self.write(
                    "INSERT INTO mailboxes (stream, letters, bytes, deadline) VALUES (?, 0, 0, ?)",
                    (stream.as_bytes(), until),
                )?;
                self.state.totals.mailboxes += 1;
                self.conn.last_insert_rowid()
            }
        };
        self.write(
            "INSERT INTO letters (box, number, name, payload) VALUES (?, ?, ?, ?)",
            (n, int(letters + 1), key, payload),
        )?;
        self.write(
            "UPDATE mailboxes SET letters = ?, bytes = ?, deadline = max(deadline, ?) WHERE n = ?",
            (int(letters + 1), int(bytes + added), until, n),
        )?;
        self.state.totals.letter_bytes += added;
        self.changed.push(stream);
        Ok(Ok(true))
    }

    pub(crate) fn drop_mailbox(&mut self, stream: StreamId) -> Result<()> {
        let there = self
            .conn
            .prepare_cached("SELECT n FROM mailboxes WHERE stream = ?")?
            .query_row([stream.as_bytes()], |row| row.get::<_, i64>(0))
            .optional()?;
        there.map_or(Ok(()), |n| self.drop_box(n))
    }

    fn no_room(&mut self, what: &str, limit: u64) -> Unavailable {
        self.happened.refused += 1;
        Unavailable(format!("no room for a message to a running call: {what} is limited to {limit}"))
    }

    /// Drops a box with its letters, and settles the accounts.
    pub(super) fn drop_box(&mut self, n: i64) -> Result<()> {
        let bytes = self
            .conn
            .prepare_cached("DELETE FROM mailboxes WHERE n = ? RETURNING bytes")?
            .query_row([n], |row| row.get(0).map(nat))?;
        self.write("DELETE FROM letters WHERE box = ?", [n])?;
        self.dirty = true;
        moved(&mut self.state.totals.mailboxes, 0, 1);
        moved(&mut self.state.totals.letter_bytes, 0, bytes);
        Ok(())
    }
}
