//! Meanings of captions, as vectors in an index, and the search for the nearest.

use rusqlite::{params, params_from_iter, types::Value};
use specreel_client::moments::{Filter, Kind, Meaning, Moment, Part};
use specreel_client::present::text::shortened;
use specreel_record::Failure;

use super::{Index, Query, search};

/// Captions that are read together.
const CHUNK: usize = 256;
/// Longest excerpt of a caption that was found by its meaning, in bytes.
const EXCERPT: usize = 160;
/// Number of captions from which the mean is estimated.
const SAMPLE: usize = 10_000;
/// The largest value of a quantized vector.
const LARGEST: f32 = 127.0;

/// The id and the text of a caption.
pub type Captioned = (i64, String);

impl Index {
    /// The models that the index has meanings of. Fails if it cannot be read.
    pub fn meaning_models(&self) -> Result<Vec<String>, Failure> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut found = self.connection.prepare("SELECT DISTINCT model FROM meanings ORDER BY model")?;
            found.query_map([], |row| row.get(0))?.collect()
        };
        read().map_err(|error| self.failure(&error))
    }

    /// Captions of existing videos that have no meaning of this model; none if the model is recorded as
    /// unable. Speech is left out: its lines are too short to have a meaning of their own. Fails if the index
    /// cannot be read.
    pub fn without_meaning(&self, model: &str) -> Result<Vec<Captioned>, Failure> {
        let read = || -> rusqlite::Result<Vec<Captioned>> {
            let mut found = self.connection.prepare(
                "SELECT captions.id, captions.text FROM captions JOIN sources ON sources.id = source JOIN videos ON videos.id = video
                 LEFT JOIN meanings ON meanings.caption = captions.id AND meanings.model = ?2
                 WHERE kind = ?1 AND NOT missing AND meanings.caption IS NULL AND ?2 NOT IN (SELECT model FROM unable)
                 ORDER BY captions.id",
            )?;
            found
                .query_map(params![Kind::Seen as i64, model], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        };
        read().map_err(|error| self.failure(&error))
    }

    /// Store the meanings of captions from a model. Fails if the index cannot be written.
    pub fn put_meanings(&mut self, model: &str, meanings: &[(i64, Vec<f32>)]) -> Result<(), Failure> {
        self.change(|write| {
            // A caption may have been replaced meanwhile.
            let mut put = write.prepare_cached(
                "INSERT OR REPLACE INTO meanings (caption, model, vector)
                 SELECT id, ?2, ?3 FROM captions WHERE id = ?1",
            )?;
            for (caption, vector) in meanings {
                put.execute(params![caption, model, quantized(vector)])?;
            }
            Ok(())
        })
    }

    /// Record that a model cannot search by meaning. Fails if the index cannot be written.
    pub fn put_unable(&mut self, model: &str) -> Result<(), Failure> {
        self.change(|write| {
            write.execute("INSERT OR IGNORE INTO unable (model) VALUES (?1)", [model])?;
            Ok(())
        })
    }

    /// The moments whose captions have the nearest meanings, without captions that have words the search
    /// excludes. Fails if the index cannot be read.
    pub(crate) fn near(
        &self,
        meaning: &Meaning,
        query: &Query,
        filter: &Filter,
        most: usize,
    ) -> Result<Vec<Moment>, Failure> {
        let read = || {
            let mut found = Vec::new();
            for chunk in self.ranked(meaning)?.chunks(CHUNK) {
                found.extend(self.moments_of(chunk, query, filter)?);
                if found.len() >= most {
                    break;
                }
            }
            found.truncate(most);
            Ok(found)
        };
        read().map_err(|error: rusqlite::Error| self.failure(&error))
    }

    /// All captions, nearest first, with the cosine similarity between their vectors and this one after the
    /// mean of all vectors is subtracted: a language model's states have much in common that carries no
    /// information.
    fn ranked(&self, meaning: &Meaning) -> rusqlite::Result<Vec<(i64, f32)>> {
        let Meaning { model, vector } = meaning;
        let width = vector.len();
        let (mut captions, mut scales, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = self.connection.prepare("SELECT caption, vector FROM meanings WHERE model = ?1")?;
        let mut rows = all.query([model])?;
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(1)?.as_blob()?;
            // A vector of another width comes from another model of the same name.
            if let Some((scale, quantized)) = bytes.split_first_chunk().filter(|(_, q)| q.len() == width) {
                captions.push(row.get(0)?);
                scales.push(f32::from_le_bytes(*scale));
                values.extend(quantized.iter().map(|value| value.cast_signed()));
            }
        }
        let rows = || scales.iter().zip(values.chunks_exact(width.max(1)));
        // The mean of a sample is close to the mean of all.
        let step = captions.len().div_ceil(SAMPLE).max(1);
        let counted = captions.len().div_ceil(step) as f32;
        let mut mean = vec![0f32; width];
        for (scale, row) in rows().step_by(step) {
            let share = scale / counted;
            mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += share * f32::from(*value));
        }
        let wanted: Vec<f32> = vector.iter().zip(&mean).map(|(value, mean)| value - mean).collect();
        let (shift, square) = (dot(&mean, &wanted), dot(&mean, &mean));
        let length = dot(&wanted, &wanted).sqrt();
        let (mean, wanted) = (Fixed::of(&mean), Fixed::of(&wanted));
        let score = |(scale, row): (&f32, &[i8])| {
            let own = sum(row.iter().map(|value| i32::from(*value) * i32::from(*value)));
            let (with, common) = (wanted.dot(row), mean.dot(row));
            let left = (scale * scale * own as f32 - 2.0 * scale * common + square).max(f32::MIN_POSITIVE);
            (scale * with - shift) / (left.sqrt() * length).max(f32::MIN_POSITIVE)
        };
        let scores = rows().map(score);
        let mut ranked: Vec<(i64, f32)> = captions.into_iter().zip(scores).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(ranked)
    }

    /// The moments of captions, in their order, without those that the filter excludes.
    fn moments_of(
        &self,
        captions: &[(i64, f32)],
        query: &Query,
        filter: &Filter,
    ) -> rusqlite::Result<Vec<Moment>> {
        let (mut conditions, mut values) = search::conditions(filter);
        if let Some(excluded) = &query.excluded {
            conditions.push_str(" AND captions.id NOT IN (SELECT rowid FROM words WHERE words MATCH ?)");
            values.push(excluded.clone().into());
        }
        let places = vec!["?"; captions.len()].join(", ");
        let sql = format!(
            "SELECT videos.path, start_s, end_s, kind, model, captions.text, captions.id
             FROM captions JOIN sources ON sources.id = captions.source JOIN videos ON videos.id = sources.video
             WHERE captions.id IN ({places}) {conditions}"
        );
        let ids = captions.iter().map(|(id, _)| Value::from(*id));
        let mut found = self.connection.prepare_cached(&sql)?;
        let rows = found.query_map(params_from_iter(ids.chain(values)), |row| {
            let moment = search::moment(row)?;
            let parts = vec![Part { text: shortened(&moment.text, EXCERPT), is_match: false }];
            Ok((row.get::<_, i64>(6)?, Moment { parts, ..moment }))
        })?;
        let mut found = rows.collect::<rusqlite::Result<Vec<(i64, Moment)>>>()?;
        let of = |(id, score): &(i64, f32)| {
            let at = found.iter().position(|(found, _)| found == id)?;
            let (_, moment) = found.swap_remove(at);
            Some(Moment { score: f64::from(*score), ..moment })
        };
        Ok(captions.iter().filter_map(of).collect())
    }
}

/// A vector in fixed point: integers can be summed in any order, so processors sum many at once.
struct Fixed {
    step: f32,
    values: Vec<i16>,
}

impl Fixed {
    /// Sums over rows of up to 8,000 values do not overflow.
    const LARGEST: f32 = 2047.0;

    fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        let step = (largest / Self::LARGEST).max(f32::MIN_POSITIVE);
        Self { step, values: vector.iter().map(|value| (value / step).round() as i16).collect() }
    }

    fn dot(&self, row: &[i8]) -> f32 {
        sum(row.iter().zip(&self.values).map(|(a, b)| i32::from(*a) * i32::from(*b))) as f32 * self.step
    }
}

/// A sum of values that are too small to overflow.
fn sum(values: impl Iterator<Item = i32>) -> i32 {
    values.fold(0, i32::wrapping_add)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A vector with one byte per value, after the step between values (f32, little-endian).
fn quantized(vector: &[f32]) -> Vec<u8> {
    let largest = vector.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    let step = largest / LARGEST;
    let values = vector.iter().map(|value| (value / step.max(f32::MIN_POSITIVE)).round() as i8);
    step.to_le_bytes().into_iter().chain(values.map(i8::cast_unsigned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Import;
    use proptest::prelude::*;
    use specreel_batch::Clip;
    use specreel_client::moments::Search;

    fn index(texts: &[&str]) -> (tempfile::TempDir, Index) {
        let dir = tempfile::tempdir().unwrap();
        let mut index = Index::open(&dir.path().join("index.db")).unwrap();
        for (number, text) in texts.iter().enumerate() {
            let path = dir.path().join(format!("{number}.mp4"));
            std::fs::write(&path, [number as u8]).unwrap();
            let import =
                Import { from: "x".into(), lines: vec![(None, (*text).into())], ..Import::default() };
            index.import(&Clip::of_file(&path), &import).unwrap();
        }
        (dir, index)
    }

    fn anything() -> Query {
        Query::parse("x").unwrap()
    }

    fn meaning(vector: Vec<f32>) -> Meaning {
        Meaning { model: "m".into(), vector }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// The order follows the cosines of the exact vectors, except where these are closer than the
        /// quantization.
        #[test]
        fn the_nearest_come_first(
            vectors in prop::collection::vec(prop::collection::vec(-1f32..1.0, 24), 2..9),
            wanted in prop::collection::vec(-1f32..1.0, 24),
        ) {
            let texts: Vec<String> = (0..vectors.len()).map(|number| number.to_string()).collect();
            let (_dir, mut index) = index(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            let lacking = index.without_meaning("m").unwrap();
            prop_assert_eq!(lacking.len(), vectors.len());
            let known: Vec<(i64, Vec<f32>)> =
                lacking.iter().zip(&vectors).map(|((id, _), vector)| (*id, vector.clone())).collect();
            index.put_meanings("m", &known).unwrap();
            prop_assert!(index.without_meaning("m").unwrap().is_empty());
            let mean: Vec<f64> = (0..24)
                .map(|at| vectors.iter().map(|v| f64::from(v[at])).sum::<f64>() / vectors.len() as f64)
                .collect();
            let off = |v: &[f32]| -> Vec<f64> { v.iter().zip(&mean).map(|(v, m)| f64::from(*v) - m).collect() };
            let cosine = |a: &[f64], b: &[f64]| {
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
            };
            let exact: Vec<f64> = vectors.iter().map(|v| cosine(&off(v), &off(&wanted))).collect();
            let found = index.near(&meaning(wanted), &anything(), &Filter::default(), 99).unwrap();
            prop_assert_eq!(found.len(), vectors.len());
            for moment in &found {
                let number: usize = moment.text.parse().unwrap();
                prop_assert!((moment.score - exact[number]).abs() < 0.03, "{} {}", moment.score, exact[number]);
            }
            prop_assert!(found.is_sorted_by(|a, b| a.score >= b.score));
        }
    }

    #[test]
    fn filters_and_exclusions_hold() {
        let (dir, mut index) = index(&["a bus", "a van", "a tree"]);
        let ids: Vec<i64> = index.without_meaning("m").unwrap().into_iter().map(|(id, _)| id).collect();
        let vectors = [vec![1.0, 0.0], vec![0.8, 0.6], vec![0.0, 1.0]];
        index.put_meanings("m", &ids.iter().copied().zip(vectors).collect::<Vec<_>>()).unwrap();
        let texts = |query: &Query, filter: &Filter| -> Vec<String> {
            let found = index.near(&meaning(vec![1.0, 0.0]), query, filter, 2).unwrap();
            found.into_iter().map(|moment| moment.text).collect()
        };
        let all = Filter::default();
        assert_eq!(texts(&anything(), &all), ["a bus", "a van"]);
        assert_eq!(texts(&Query::parse("x -bus").unwrap(), &all), ["a van", "a tree"]);
        let below = Filter { below: vec![dir.path().join("2.mp4")], ..Filter::default() };
        assert_eq!(texts(&anything(), &below), ["a tree"]);
        assert_eq!(texts(&anything(), &Filter { kind: Some(Kind::Said), ..Filter::default() }), [""; 0]);
    }

    #[test]
    fn each_model_has_its_own_and_is_asked_once_whether_it_can_tell() {
        let (_dir, mut index) = index(&["a", "b"]);
        let ids: Vec<i64> = index.without_meaning("m").unwrap().into_iter().map(|(id, _)| id).collect();
        index
            .put_meanings("m", &[(ids[0], vec![1.0; 3]), (ids[1], vec![0.0; 3]), (9999, vec![1.0; 3])])
            .unwrap();
        index.put_meanings("n", &[(ids[0], vec![1.0; 2])]).unwrap();
        assert_eq!(index.meaning_models().unwrap(), ["m", "n"]);
        let lacking = |index: &Index, model: &str| index.without_meaning(model).unwrap().len();
        assert_eq!([lacking(&index, "m"), lacking(&index, "n"), lacking(&index, "small")], [0, 1, 2]);
        index.put_unable("small").unwrap();
        assert_eq!([lacking(&index, "n"), lacking(&index, "small")], [1, 0]);
    }

    /// A search reads the wanted words, and uses their meaning if the index has meanings of that model.
    #[test]
    fn meanings_count_where_the_index_has_them_by_the_same_model() {
        let (_dir, mut index) = index(&["a lorry", "a tree"]);
        let found = |index: &Index, model: &str| -> Vec<String> {
            let read = |text: &str| {
                assert_eq!(text, "truck");
                Ok(Some(Meaning { model: model.into(), vector: vec![1.0, 0.1] }))
            };
            let search = Search { filter: &Filter::default(), most: 1, read: Some(&read) };
            let found = index.search(&Query::parse("truck* -tree").unwrap(), search).unwrap();
            found.into_iter().map(|moment| moment.text).collect()
        };
        assert!(found(&index, "m").is_empty(), "it has none");
        let ids: Vec<i64> = index.without_meaning("m").unwrap().into_iter().map(|(id, _)| id).collect();
        index.put_meanings("m", &[(ids[0], vec![1.0, 0.0]), (ids[1], vec![0.0, 1.0])]).unwrap();
        assert_eq!(found(&index, "m"), ["a lorry"]);
        assert!(found(&index, "other").is_empty());
    }
}
