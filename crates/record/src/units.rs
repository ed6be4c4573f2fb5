//! Bytes in words, for messages of every floor.

/// Bytes in powers of a thousand: `812 B`, `3.4 MB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if value < 9.95 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_have_two_digits_and_a_unit() {
        assert_eq!(bytes(812), "812 B");
        assert_eq!(bytes(3_400_000), "3.4 MB");
        assert_eq!(bytes(999_900), "1.0 MB");
        assert_eq!(bytes(66_900_000_000), "67 GB");
    }
}
