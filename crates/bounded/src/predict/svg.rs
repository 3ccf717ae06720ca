//! Pictures as SVG: lines, areas, rectangles and texts, nothing else.

use std::fmt::Write;

/// A picture that is being drawn; coordinates are pixels from the upper left.
pub(super) struct Svg {
    width: u32,
    height: u32,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty picture of this size.
    pub fn new(width: u32, height: u32) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// Adds an element.
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into a string does not fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A line, perhaps dashed.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, dashed: bool) {
        let dash = if dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        self.put(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{color}\"{dash}/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points.
    pub fn path(&mut self, points: &[(f64, f64)], color: &str) {
        let points = joined(points);
        self.put(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
        ));
    }

    /// A filled polygon.
    pub fn area(&mut self, points: &[(f64, f64)], color: &str) {
        let points = joined(points);
        self.put(format_args!("<polygon points=\"{points}\" fill=\"{color}\"/>"));
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), color: &str) {
        self.put(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\" stroke=\"white\"/>",
            corner.0, corner.1, size.0, size.1
        ));
    }

    /// A small disc.
    pub fn dot(&mut self, center: (f64, f64), color: &str) {
        self.put(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{color}\"/>",
            center.0, center.1
        ));
    }

    /// A text at a place.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, color: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\">{text}</text>",
            at.0, at.1
        ));
    }

    /// The whole file.
    pub fn finish(self) -> String {
        let Svg { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{body}</svg>\n"
        )
    }
}

/// Points as an attribute.
fn joined(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}
