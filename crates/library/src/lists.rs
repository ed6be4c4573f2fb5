//! Found moments as playlists.

use specreel_client::moments::Moment;

use super::file::absolute;

/// Length of a moment without an end, in seconds.
const LENGTH_S: f64 = 10.0;

/// A playlist for VLC: an extended M3U with the beginning and the end of each moment.
pub fn m3u(hits: &[Moment]) -> String {
    let entry = |hit: &Moment| {
        let (start, end) = bounds(hit);
        let name = hit.path.file_name().unwrap_or_default().to_string_lossy();
        format!(
            "#EXTINF:{:.0},{} {}\n#EXTVLCOPT:start-time={start:.3}\n#EXTVLCOPT:stop-time={end:.3}\n{}\n",
            end - start,
            one_line(&name),
            specreel_record::clock(start),
            absolute(&hit.path).to_string_lossy()
        )
    };
    std::iter::once("#EXTM3U\n".to_owned()).chain(hits.iter().map(entry)).collect()
}

/// A playlist that mpv plays as one video: an EDL, in which names are preceded by their length in bytes.
pub fn edl(hits: &[Moment]) -> String {
    let entry = |hit: &Moment| {
        let (start, end) = bounds(hit);
        let path = absolute(&hit.path);
        let path = path.to_string_lossy();
        format!("%{}%{path},{start:.3},{:.3}\n", path.len(), end - start)
    };
    std::iter::once("# mpv EDL v0\n".to_owned()).chain(hits.iter().map(entry)).collect()
}

fn bounds(hit: &Moment) -> (f64, f64) {
    (hit.start, hit.end.unwrap_or(hit.start + LENGTH_S))
}

fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_client::moments::Kind;

    #[test]
    fn players_get_the_times_of_each_moment() {
        let hit = |path: &str, start, end| Moment {
            path: path.into(),
            start,
            end,
            kind: Kind::Seen,
            parts: Vec::new(),
            text: String::new(),
            model: None,
            score: 1.0,
        };
        let hits = [hit("/v/a, b.mp4", 63.5, Some(70.0)), hit("/v/ü.mp4", 0.0, None)];
        assert_eq!(
            m3u(&hits),
            "#EXTM3U\n#EXTINF:6,a, b.mp4 1:03.5\n#EXTVLCOPT:start-time=63.500\n#EXTVLCOPT:stop-time=70.000\n/v/a, b.mp4\n\
             #EXTINF:10,ü.mp4 0:00\n#EXTVLCOPT:start-time=0.000\n#EXTVLCOPT:stop-time=10.000\n/v/ü.mp4\n"
        );
        assert_eq!(edl(&hits), "# mpv EDL v0\n%11%/v/a, b.mp4,63.500,6.500\n%9%/v/ü.mp4,0.000,10.000\n");
    }
}
