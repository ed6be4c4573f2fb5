//! Finds the moments that match a search.

use std::path::{MAIN_SEPARATOR, PathBuf};

use rusqlite::{params, types::Value};
use specreel_client::moments::{Filter, Kind, Moment, MomentFinder, Part, Search};
use specreel_os::names;
use specreel_record::Failure;

use super::{Index, IndexFile, Query, file::absolute};

/// Marks around matches in an excerpt; no text in an index contains them.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];
/// Approximate number of words in an excerpt.
const EXCERPT: i64 = 24;
/// Number of captions that are ranked in about ten milliseconds.
const FEW: i64 = 5000;

/// The score of a moment by words, and the order of moments, in SQL.
struct Order {
    score: &'static str,
    by: &'static str,
}

/// Best first, and by path and time among equals.
const BEST: Order = Order { score: "-bm25(words)", by: "score DESC, videos.path, start_s, captions.id" };
/// The captions that were written last first. The full-text index is read in this order, and only as far as
/// moments are wanted.
const NEWEST: Order = Order { score: "0.0", by: "words.rowid DESC" };

impl MomentFinder for IndexFile {
    fn find(&self, words: &str, search: Search<'_>) -> Result<Vec<Moment>, Failure> {
        let query = Query::parse(words).map_err(|problem| {
            Failure::usage(format!("cannot search for `{words}`: {problem}"), "include a word to search for")
        })?;
        Index::open_to_read(&self.0)?.search(&query, search)
    }

    fn about(&self, question: &str, search: Search<'_>) -> Result<Vec<Moment>, Failure> {
        let query = Query::about(question).map_err(|problem| {
            Failure::usage(format!("cannot search for `{question}`: {problem}"), "ask the question in words")
        })?;
        Index::open_to_read(&self.0)?.search(&query, search)
    }

    fn meaning_models(&self) -> Result<Vec<String>, Failure> {
        Index::open_to_read(&self.0)?.meaning_models()
    }
}

impl Index {
    /// The moments with these words, and the moments with the nearest meanings, if meanings can be read.
    /// Fails like [`MomentFinder::find`].
    pub fn search(&self, query: &Query, search: Search<'_>) -> Result<Vec<Moment>, Failure> {
        let Search { filter, most, read } = search;
        let models = if read.is_some() { self.meaning_models()? } else { Vec::new() };
        let Some(read) = read.filter(|_| !models.is_empty()) else {
            return self.find_moments(query, filter, most);
        };
        match read(&query.wanted)?.filter(|meaning| models.contains(&meaning.model)) {
            None => self.find_moments(query, filter, most),
            Some(meaning) => {
                let by_words = self.moments_by(&BEST, query, filter, most)?;
                Ok(joined([by_words, self.near(&meaning, query, filter, most)?], most))
            }
        }
    }

    /// The moments with these words, best first, and by path and time among equals. If each of the words is in
    /// most captions of a large index, the captions that were written last come first. Fails if the index cannot
    /// be read.
    pub fn find_moments(&self, query: &Query, filter: &Filter, most: usize) -> Result<Vec<Moment>, Failure> {
        let is_in_most = self.is_in_most(query).map_err(|error| self.failure(&error))?;
        self.moments_by(if is_in_most { &NEWEST } else { &BEST }, query, filter, most)
    }

    /// True if each wanted term is in more than half of all captions, and in more than a few. BM25 gives such
    /// terms the smallest possible weight, and ranking all of their captions takes long.
    fn is_in_most(&self, query: &Query) -> rusqlite::Result<bool> {
        let mut more = self.connection.prepare_cached(
            "SELECT 1 FROM words WHERE words MATCH ?1
             LIMIT 1 OFFSET max(?2, (SELECT count(*) FROM captions) / 2)",
        )?;
        for term in &query.terms {
            if !more.exists(params![term, FEW])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The moments with these words in an order. Fails if the index cannot be read.
    fn moments_by(
        &self,
        order: &Order,
        query: &Query,
        filter: &Filter,
        most: usize,
    ) -> Result<Vec<Moment>, Failure> {
        let Order { score, by } = order;
        let (conditions, mut values) = conditions(filter);
        let sql = format!(
            "SELECT videos.path, start_s, end_s, kind, model, captions.text, snippet(words, 0, char(2), char(3), '…', {EXCERPT}),
                    {score} AS score
             FROM words JOIN captions ON captions.id = words.rowid
             JOIN sources ON sources.id = captions.source JOIN videos ON videos.id = sources.video
             WHERE words MATCH ? {conditions} ORDER BY {by} LIMIT ?"
        );
        values.insert(0, query.expression.clone().into());
        values.push(i64::try_from(most).unwrap_or(i64::MAX).into());
        let read = || {
            let mut found = self.connection.prepare_cached(&sql)?;
            let hits = found.query_map(rusqlite::params_from_iter(values), |row| {
                let excerpt: String = row.get(6)?;
                Ok(Moment { parts: parts(&excerpt), score: row.get(7)?, ..moment(row)? })
            })?;
            hits.collect::<rusqlite::Result<Vec<Moment>>>()
        };
        read().map_err(|error| self.failure(&error))
    }
}

/// Merge lists of moments by their ranks in each list (reciprocal rank fusion; Cormack et al., SIGIR 2009).
fn joined(lists: [Vec<Moment>; 2], most: usize) -> Vec<Moment> {
    /// The constant that is added to ranks: the larger, the less the first ranks stand out.
    const FLAT: f64 = 60.0;
    let mut joined: Vec<Moment> = Vec::new();
    for list in lists {
        let before = joined.len();
        for (rank, moment) in list.into_iter().enumerate() {
            let score = 1.0 / (FLAT + rank as f64 + 1.0);
            match joined.iter().position(|other| other.is_same(&moment)) {
                // A text that another prompt produced as well counts once per list.
                Some(at) if at < before => joined[at].score += score,
                Some(_) => {}
                None => joined.push(Moment { score, ..moment }),
            }
        }
    }
    // Stable: among equals, moments of the first list come first.
    joined.sort_by(|a, b| b.score.total_cmp(&a.score));
    joined.truncate(most);
    joined
}

/// A moment without excerpt and score, from the columns path, start, end, kind, model and text.
pub(super) fn moment(row: &rusqlite::Row<'_>) -> rusqlite::Result<Moment> {
    let (path, kind): (Vec<u8>, i64) = (row.get(0)?, row.get(3)?);
    Ok(Moment {
        path: names::path(&path),
        start: row.get(1)?,
        end: row.get(2)?,
        kind: if kind == Kind::Said as i64 { Kind::Said } else { Kind::Seen },
        parts: Vec::new(),
        text: row.get(5)?,
        model: row.get(4)?,
        score: 0.0,
    })
}

/// SQL conditions of a filter, and their values.
pub(super) fn conditions(filter: &Filter) -> (String, Vec<Value>) {
    let (mut sql, mut values) = (String::new(), Vec::new());
    let mut add = |condition: &str, own: Vec<Value>| {
        sql.push_str(" AND ");
        sql.push_str(condition);
        values.extend(own);
    };
    if !filter.missing {
        add("NOT missing", Vec::new());
    }
    if !filter.below.is_empty() {
        let one = "(path = ? OR substr(path, 1, ?) = ?)";
        let own = filter.below.iter().flat_map(|below| {
            // Without a trailing separator.
            let below: PathBuf = absolute(below).components().collect();
            let path = names::bytes(&below).to_vec();
            let mut folder = path.clone();
            if folder.last() != Some(&(MAIN_SEPARATOR as u8)) {
                folder.push(MAIN_SEPARATOR as u8);
            }
            [path.into(), Value::from(folder.len() as i64), folder.into()]
        });
        add(&format!("({})", vec![one; filter.below.len()].join(" OR ")), own.collect());
    }
    if let Some(kind) = filter.kind {
        add("kind = ?", vec![(kind as i64).into()]);
    }
    let times = [("modified_ms >= ?", filter.since_ms), ("modified_ms < ?", filter.until_ms)];
    for (condition, value) in times {
        value.into_iter().for_each(|value| add(condition, vec![value.into()]));
    }
    for (condition, value) in [("seconds >= ?", filter.longer_s), ("seconds <= ?", filter.shorter_s)] {
        value.into_iter().for_each(|value| add(condition, vec![value.into()]));
    }
    if let Some(model) = &filter.model {
        add("instr(lower(ifnull(model, '')), lower(?)) > 0", vec![model.clone().into()]);
    }
    (sql, values)
}

/// Split an excerpt into parts at its marks.
fn parts(excerpt: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut is_match = false;
    for text in excerpt.split(MARKS) {
        if !text.is_empty() {
            parts.push(Part { text: text.to_owned(), is_match });
        }
        is_match = !is_match;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Import, Query};
    use specreel_batch::Clip;
    use specreel_record::Span;

    fn index(texts: &[(&str, Kind, &str)]) -> (tempfile::TempDir, Index) {
        let dir = tempfile::tempdir().unwrap();
        let mut index = Index::open(&dir.path().join("index.db")).unwrap();
        for (number, (name, kind, text)) in texts.iter().enumerate() {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, [number as u8]).unwrap();
            let span = Some(Span { start: number as f64, end: number as f64 + 2.0 });
            let import =
                Import { kind: *kind, from: format!("{number}.srt"), lines: vec![(span, (*text).into())] };
            assert!(index.import(&Clip::of_file(&path), &import).unwrap());
        }
        (dir, index)
    }

    fn starts(index: &Index, words: &str, filter: &Filter) -> Vec<f64> {
        let hits = index.find_moments(&Query::parse(words).unwrap(), filter, 20).unwrap();
        hits.iter().map(|hit| hit.start).collect()
    }

    #[test]
    fn words_are_found_by_their_stems_the_best_first() {
        let (_dir, index) = index(&[
            (
                "a.mp4",
                Kind::Seen,
                "A red van is turning left while a dog and two cats look at it from the other side.",
            ),
            ("b.mp4", Kind::Seen, "The red van turns."),
            ("c.mp4", Kind::Said, "We turned the van over. It was not red but blue, said Zoë."),
            ("d.mp4", Kind::Seen, "Nobody is there."),
        ]);
        let all = Filter::default();
        assert_eq!(starts(&index, "red vans turning", &all), [1.0, 2.0, 0.0], "shorter texts come first");
        assert_eq!(starts(&index, "\"red van\"", &all), [1.0, 0.0]);
        assert_eq!(starts(&index, "zoe", &all), [2.0]);
        assert_eq!(starts(&index, "nob* OR dogs", &all).len(), 2);
        assert_eq!(starts(&index, "van -dog -blue", &all), [1.0]);
        assert_eq!(starts(&index, "bus", &all), [0.0; 0]);
        let hit = index.find_moments(&Query::parse("turn").unwrap(), &all, 1).unwrap().remove(0);
        let marked: Vec<&str> =
            hit.parts.iter().filter(|part| part.is_match).map(|part| &*part.text).collect();
        assert_eq!((hit.text.as_str(), marked), ("The red van turns.", vec!["turns"]));
        assert_eq!((hit.end, hit.model.as_deref()), (Some(3.0), Some("1.srt")));
        assert!(hit.score > 0.0);
    }

    #[test]
    fn filters_leave_out_what_they_say() {
        let (dir, index) = index(&[
            ("x/a.mp4", Kind::Seen, "a tree"),
            ("x/y/b.mp4", Kind::Said, "a tree"),
            ("xy/c.mp4", Kind::Seen, "a tree"),
        ]);
        let of = |filter: Filter| starts(&index, "tree", &filter);
        let below = |name: &str| Filter { below: vec![dir.path().join(name)], ..Filter::default() };
        assert_eq!(of(below("x")), [0.0, 1.0]);
        assert_eq!(of(below("x/")), [0.0, 1.0]);
        assert_eq!(of(below("xy/c.mp4")), [2.0]);
        assert_eq!(of(Filter { below: vec!["/".into()], ..Filter::default() }).len(), 3);
        assert_eq!(of(Filter { kind: Some(Kind::Said), ..Filter::default() }), [1.0]);
        assert_eq!(of(Filter { model: Some("2.SRT".into()), ..Filter::default() }), [2.0]);
        assert_eq!(of(Filter { longer_s: Some(3.5), ..Filter::default() }), [2.0]);
        assert_eq!(of(Filter { shorter_s: Some(2.0), ..Filter::default() }), [0.0]);
        assert_eq!(of(Filter { since_ms: Some(i64::MAX), ..Filter::default() }), [0.0; 0]);
        assert_eq!(of(Filter { until_ms: Some(i64::MAX), ..Filter::default() }).len(), 3);
    }

    #[test]
    fn words_of_most_captions_are_listed_from_the_newest_and_rarer_words_are_ranked() {
        let (dir, mut index) = index(&[]);
        let mut add = |name: &str, count: u32, text: &dyn Fn(u32) -> &'static str| {
            let path = dir.path().join(name);
            std::fs::write(&path, name).unwrap();
            let line = |at: u32| {
                let start = f64::from(at);
                (Some(Span { start, end: start + 1.0 }), text(at).to_owned())
            };
            let import =
                Import { kind: Kind::Seen, from: name.into(), lines: (0..count).map(line).collect() };
            assert!(index.import(&Clip::of_file(&path), &import).unwrap());
        };
        add("a.mp4", 5100, &|at| match at {
            7 => "two men and a red dog walk down the road",
            9 => "men walk, red",
            _ => "men walk",
        });
        add("b.mp4", 50, &|at| if at == 0 { "a man walks" } else { "nobody" });
        let newest: Vec<f64> = (5080..5100).rev().map(f64::from).collect();
        let ranked = |words: &str| starts(&index, words, &Filter::default());
        assert_eq!(ranked("walking"), [&[0.0][..], &newest[..19]].concat(), "b.mp4 was indexed last");
        assert_eq!(ranked("men walked"), newest, "by stems, and both words");
        assert_eq!(ranked("\"men walk\" OR walk* -man"), newest, "phrases, prefixes and exclusions");
        assert_eq!(ranked("walk red"), [9.0, 7.0], "a rarer word beside it");
        assert_eq!(ranked("walk OR red")[..2], [9.0, 7.0], "a rarer word instead of it");
        let oldest: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(ranked("nobody"), oldest, "not in most captions");
        let below = Filter { below: vec![dir.path().join("b.mp4")], ..Filter::default() };
        assert_eq!(starts(&index, "walk", &below), [0.0]);
        let hit =
            index.find_moments(&Query::parse("walk").unwrap(), &Filter::default(), 1).unwrap().remove(0);
        assert_eq!(
            (hit.text.as_str(), hit.excerpt().as_str(), hit.score),
            ("a man walks", "a man walks", 0.0)
        );
        assert!(hit.parts.iter().any(|part| part.is_match && part.text == "walks"));
    }

    #[test]
    fn what_is_high_in_both_lists_comes_first_and_words_before_meanings() {
        let list = |starts: &[f64]| -> Vec<Moment> {
            let moment = |start: &f64| Moment {
                path: "/a.mp4".into(),
                start: *start,
                end: None,
                kind: Kind::Seen,
                parts: Vec::new(),
                text: String::new(),
                model: None,
                score: 7.0,
            };
            starts.iter().map(moment).collect()
        };
        let starts = |lists, most| joined(lists, most).iter().map(|moment| moment.start).collect::<Vec<_>>();
        assert_eq!(starts([list(&[1.0, 2.0, 3.0]), list(&[3.0, 4.0])], 9), [3.0, 1.0, 2.0, 4.0]);
        assert_eq!(starts([list(&[1.0]), list(&[2.0])], 1), [1.0]);
        assert_eq!(starts([list(&[2.0, 1.0, 1.0]), list(&[])], 9), [2.0, 1.0], "twice in one list");
        assert_eq!(starts([Vec::new(), list(&[2.0, 1.0])], 9), [2.0, 1.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// No query is a database error, and every result has the words.
        #[test]
        fn no_query_is_an_error(typed in "[a-c \"*:()^{}\\-+'ORNEARTD\u{0}é,]{0,24}", word in "[a-c]{1,2}") {
            let (_dir, index) = index(&[("a.mp4", Kind::Seen, "a b c ab bc abc ca"), ("b.mp4", Kind::Seen, "b c")]);
            for query in [Query::parse(&typed), Query::about(&typed)].into_iter().flatten() {
                index.find_moments(&query, &Filter::default(), 5).unwrap();
            }
            let found = index.find_moments(&Query::parse(&word).unwrap(), &Filter::default(), 5).unwrap();
            for hit in &found {
                prop_assert!(hit.text.split(' ').any(|own| own == word), "{}: {}", word, hit.text);
            }
            prop_assert_eq!(found.is_empty(), !["a", "b", "c", "ab", "bc", "abc", "ca"].contains(&&*word));
        }
    }
}
