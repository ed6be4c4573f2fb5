//! What texts are about, and whether a model can say so.

use specreel_engine::Meanings;
use specreel_record::Failure;

/// What a text is about, as [`Meanings`] say it.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    pub model: String,
    pub vector: Vec<f32>,
}

impl Meaning {
    /// The first one.
    pub fn first(mut meanings: Meanings) -> Option<Self> {
        let vector = std::mem::take(meanings.vectors.first_mut()?);
        Some(Self { model: meanings.model, vector })
    }
}

/// Captions, and searches for them in other words.
const PAIRS: [(&str, &str); 12] = [
    ("A red lorry is parked next to a low brick wall.", "truck standing still"),
    ("Two children are kicking a ball around on the grass.", "kids playing soccer"),
    ("A woman is slicing carrots on a wooden board.", "person chopping vegetables"),
    ("An airplane leaves the runway and climbs into the sky.", "jet taking off"),
    ("A cat is curled up on a cushion with its eyes closed.", "kitten sleeping"),
    ("Firefighters spray water at a burning house.", "putting out flames in a building"),
    ("A couple exchanges rings in front of guests in a church.", "wedding ceremony"),
    ("A teacher writes an equation on a blackboard.", "math lesson in a classroom"),
    ("A surfer rides a tall wave and falls off his board.", "sport in the ocean"),
    ("A barista pours milk foam into a cup.", "preparing a coffee"),
    ("A nurse measures the blood pressure of a patient.", "medical check"),
    ("A drummer hits the cymbals and the audience jumps.", "rock concert"),
];
/// How many of them a model has to find at once. By chance it is one.
const ENOUGH: usize = 7;

/// Whether what a model says of texts finds captions by searches in other words: small models of few words cannot. `read` has the model
/// say what texts are about. Fails as `read`.
pub fn tells_meanings(
    read: &mut dyn FnMut(Vec<String>) -> Result<Meanings, Failure>,
) -> Result<bool, Failure> {
    let mut of = |text: fn(&(&'static str, &'static str)) -> &'static str| {
        Ok::<_, Failure>(read(PAIRS.iter().map(|pair| text(pair).to_owned()).collect())?.vectors)
    };
    let (captions, searches) = (of(|pair| pair.0)?, of(|pair| pair.1)?);
    let width = captions.first().map_or(0, Vec::len);
    let mean: Vec<f32> = (0..width)
        .map(|at| captions.iter().filter_map(|caption| caption.get(at)).sum::<f32>() / PAIRS.len() as f32)
        .collect();
    let off =
        |vector: &[f32]| -> Vec<f32> { vector.iter().zip(&mean).map(|(value, mean)| value - mean).collect() };
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let captions: Vec<Vec<f32>> = captions.iter().map(|caption| off(caption)).collect();
    let nearest = |search: &Vec<f32>| {
        let search = off(search);
        let cosine =
            |caption: &Vec<f32>| dot(caption, &search) / dot(caption, caption).sqrt().max(f32::MIN_POSITIVE);
        let scores: Vec<f32> = captions.iter().map(cosine).collect();
        (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
    };
    let found = searches.iter().enumerate().filter(|(number, search)| nearest(search) == Some(*number));
    Ok(found.count() >= ENOUGH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a model passes that knows this many pairs and has one vector for all others.
    fn tells(known: usize) -> bool {
        let read = &mut |texts: Vec<String>| {
            let vector = |number: usize| {
                let mut vector = vec![0.5; PAIRS.len()];
                if number < known {
                    vector[number] += 1.0;
                }
                vector
            };
            let vectors = (0..texts.len()).map(vector).collect();
            Ok(Meanings { model: "m".into(), vectors })
        };
        tells_meanings(read).unwrap()
    }

    #[test]
    fn a_model_has_to_tell_most_pairs_apart() {
        assert!(tells(PAIRS.len()) && tells(ENOUGH));
        assert!(!tells(0) && !tells(ENOUGH - 2));
    }
}
