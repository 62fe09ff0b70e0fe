//! The chart: what a call costs, in times of the floor.

use super::figures::{Figures, shown};

const WIDTH: f64 = 720.0;
const BAR: f64 = 22.0;
const GAP: f64 = 8.0;
const LABEL: f64 = 210.0;
const TOP: f64 = 56.0;

/// What is drawn: figure, heading.
const GROUPS: [(&str, &str); 3] = [
    ("call.ratio", "without a session"),
    ("session.ratio", "in a session"),
    ("initialize.ratio", "initialize, initialized, DELETE"),
];

/// An SVG with a bar for each server, on a logarithmic scale that begins at half the floor.
pub(super) fn draw(figures: &Figures) -> String {
    let bars: Vec<f64> =
        GROUPS.iter().flat_map(|(figure, _)| figures.of(figure)).map(|(_, value)| *value).collect();
    let most = bars.iter().copied().fold(4.0, f64::max);
    let room = WIDTH - LABEL - 70.0;
    let length = |value: f64| (value.max(0.5) / 0.5).log2() / (most / 0.5).log2() * room;
    let mut body = String::new();
    let mut y = TOP;
    for (figure, heading) in GROUPS {
        let of = figures.of(figure);
        if of.is_empty() {
            continue;
        }
        body.push_str(&format!("<text x=\"12\" y=\"{:.0}\" class=\"h\">{heading}</text>\n", y + 14.0));
        y += 24.0;
        for (subject, value) in of {
            let class = if subject.starts_with("bowline") { "ours" } else { "other" };
            let width = length(*value);
            body.push_str(&format!(
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n<rect x=\"{LABEL:.0}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{BAR:.0}\" class=\"{class}\"/>\n<text x=\"{:.1}\" y=\"{:.0}\">{} ×</text>\n",
                LABEL - 8.0,
                y + 16.0,
                escaped(subject),
                LABEL + width + 6.0,
                y + 16.0,
                shown(*value),
            ));
            y += BAR + GAP;
        }
        y += 10.0;
    }
    let one = LABEL + length(1.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"CPU time of a call, in times of a bare hyper server\">\n\
         <style>text{{font:14px sans-serif;fill:#222}}.t{{font-weight:bold;font-size:16px}}.h{{font-weight:bold}}.ours{{fill:#1f6feb}}.other{{fill:#9aa4b2}}</style>\n\
         <rect width=\"{WIDTH:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"28\" class=\"t\">CPU time of a call, in times of a bare hyper server (logarithmic)</text>\n\
         <line x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"{TOP:.0}\" y2=\"{bottom:.0}\" stroke=\"#222\" stroke-dasharray=\"3 3\"/>\n{body}</svg>\n",
        height = y + 8.0,
        bottom = y - 8.0,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_for_each_server_longer_for_more() {
        let text = "figure\tcall.ratio\tfloor\t1\nfigure\tcall.ratio\tbowline\t1.3\nfigure\tcall.ratio\t<peer>\t40\n";
        let svg = draw(&Figures::read(text).unwrap());
        let widths: Vec<f64> = svg
            .split("width=\"")
            .skip(2)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(widths.len(), 3, "{svg}");
        assert!(widths[0] < widths[1] && widths[1] < widths[2] && widths[2] < WIDTH - LABEL);
        assert!(svg.contains("&lt;peer>") && !svg.contains("in a session<"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }
}
