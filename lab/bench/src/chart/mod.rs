//! A [`Plot`](specreel_client::chart::Plot) as terminal text ([`text`]) and as SVG ([`svg`]).

mod svg;
mod text;

pub use svg::svg;
pub use text::text;

#[cfg(test)]
mod tests {
    use specreel_client::chart::Plot;

    pub(super) fn plot() -> Plot {
        let points = [(1.0, 100.0, "plain"), (2.0, 90.0, "fast"), (1.5, 80.0, "bad"), (3.0, 60.0, "<loose>")];
        Plot::new("Facts", "speedup", "kept", points.map(|(x, y, label)| (x, y, label.into())))
    }
}
