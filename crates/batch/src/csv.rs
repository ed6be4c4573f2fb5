//! Records of comma-separated values (RFC 4180): every field is quoted, a quote in it is doubled, and line breaks in it stay.

pub fn record<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let fields = fields.into_iter().map(|field| format!("\"{}\"", field.replace('"', "\"\"")));
    fields.collect::<Vec<_>>().join(",") + "\n"
}

/// Whole records of a text, and how many bytes they are. The rest is an incomplete record without a line break.
pub fn records(text: &str) -> (Vec<Vec<String>>, usize) {
    let mut records = Vec::new();
    let (mut record, mut field) = (Vec::new(), String::new());
    let (mut quoted, mut whole) = (false, 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if quoted && chars.next_if(|(_, next)| *next == '"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted && chars.peek().is_some_and(|(_, next)| *next == '\n') => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                let record = std::mem::take(&mut record);
                // A blank line is no record.
                if record.len() > 1 || !record[0].is_empty() {
                    records.push(record);
                }
                whole = at + 1;
            }
            c => field.push(c),
        }
    }
    (records, whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_record_is_not_read() {
        let text = record(["a", "b \"c\", d\ne"]);
        assert_eq!(text, "\"a\",\"b \"\"c\"\", d\ne\"\n");
        for cut in 0..text.len() {
            assert_eq!(records(&text[..cut]), (vec![], 0), "{cut}");
        }
        let (read, whole) = records(&(text.clone() + "\"x"));
        assert_eq!((read, whole), (vec![vec!["a".to_owned(), "b \"c\", d\ne".into()]], text.len()));
        assert_eq!(records("a,b\r\n\r\n1,\n").0, [["a", "b"], ["1", ""]]);
    }

    proptest! {
        #[test]
        fn records_come_back(rows in prop::collection::vec(prop::collection::vec("[a\",\n\r é]{0,6}", 2..4), 0..5)) {
            let text: String = rows.iter().map(|row| record(row.iter().map(String::as_str))).collect();
            prop_assert_eq!(records(&text), (rows, text.len()));
        }
    }
}
