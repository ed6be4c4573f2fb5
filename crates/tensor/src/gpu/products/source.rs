//! The sources of the kernels of products: parts that several kernels share, put together and written out.
//!
//! Accumulators must be variables of their own, not an array, to be sure to be registers. So sources have lines that are read
//! here, before WGSL's compiler:
//!
//! * `//: each r N` … `//: end`: the lines in between, `N` times, `$r` being 0, 1, …; `N` is a number or `ROWS`.
//! * `//: if NAME` … `//: else` … `//: end`: one of two parts.
//!
//! `ROWS` is the number of rows, and `@binding(next)` the next free binding.

/// What a source is written out for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setting<'a> {
    /// The value of `ROWS`.
    pub rows: usize,
    /// The names that are set for `if`.
    pub names: &'a [&'a str],
}

/// The WGSL of `parts`, one after the other.
pub(crate) fn source(parts: &[&str], setting: Setting<'_>) -> String {
    let text = parts.concat();
    let lines: Vec<&str> = text.lines().collect();
    let mut written = String::with_capacity(4 * text.len());
    write(&lines, setting, &[], &mut written);
    let mut pieces = written.split("@binding(next)");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for (index, piece) in pieces.enumerate() {
        out.push_str(&format!("@binding({}){piece}", index + 1));
    }
    out
}

fn write(lines: &[&str], setting: Setting<'_>, values: &[(&str, usize)], out: &mut String) {
    let mut at = 0;
    while at < lines.len() {
        let words: Vec<&str> = lines[at].split_whitespace().collect();
        match words[..] {
            ["//:", "each", name, count] => {
                let (end, _) = ends(lines, at);
                let count = if count == "ROWS" { setting.rows } else { count.parse().unwrap_or(0) };
                for value in 0..count {
                    write(&lines[at + 1..end], setting, &[values, &[(name, value)]].concat(), out);
                }
                at = end;
            }
            ["//:", "if", name] => {
                let (end, middle) = ends(lines, at);
                let chosen = match setting.names.contains(&name) {
                    true => at + 1..middle.unwrap_or(end),
                    false => middle.map_or(end, |middle| middle + 1)..end,
                };
                write(&lines[chosen], setting, values, out);
                at = end;
            }
            _ => {
                let line = lines[at].replace("ROWS", &setting.rows.to_string());
                let line = values
                    .iter()
                    .fold(line, |line, (name, value)| line.replace(&format!("${name}"), &value.to_string()));
                out.push_str(&line);
                out.push('\n');
            }
        }
        at += 1;
    }
}

/// The end of the part that begins in line `at`, and its `else`.
fn ends(lines: &[&str], at: usize) -> (usize, Option<usize>) {
    let (mut depth, mut middle) = (0, None);
    for (index, line) in lines.iter().enumerate().skip(at) {
        match line.trim().strip_prefix("//: ") {
            Some("end") => depth -= 1,
            Some("else") if depth == 1 => middle = Some(index),
            Some(begin) if begin.starts_with("each ") || begin.starts_with("if ") => depth += 1,
            _ => {}
        }
        if depth == 0 {
            return (index, middle);
        }
    }
    unreachable!("a part without an end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_repeated_chosen_and_numbered() {
        let text = "@binding(next) a;\n//: each i 2\n//: each j ROWS\nx_$i_$j = $iu;\n//: end\n//: end\n//: if A\nyes\n//: else\nno\n//: end\n";
        let more = "@binding(next) b[ROWS];\n";
        assert_eq!(
            source(&[text, more], Setting { rows: 2, names: &["A"] }),
            "@binding(1) a;\nx_0_0 = 0u;\nx_0_1 = 0u;\nx_1_0 = 1u;\nx_1_1 = 1u;\nyes\n@binding(2) b[2];\n"
        );
        assert!(source(&[text], Setting { rows: 0, names: &[] }).ends_with(";\nno\n"));
    }
}
