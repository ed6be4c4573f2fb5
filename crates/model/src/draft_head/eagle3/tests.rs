use super::*;

#[test]
fn rows_of_the_head_stand_for_ids_of_the_target() {
    // Three of seven ids: 1, 2 and 5.
    let new = |offsets: &[i64], members: Option<&[i64]>| {
        DraftVocabulary::new(Some(offsets.to_vec()), members, 3, 7)
    };
    let map = new(&[1, 1, 3], Some(&[0, 1, 1, 0, 0, 1, 0])).unwrap();
    assert_eq!([0, 1, 2].map(|row| map.id(row)), [1, 2, 5]);
    assert_eq!([0, 2, 5, 7].map(|vocab| map.rows_below(vocab)), [0, 1, 2, 3]);
    let none = f32::NEG_INFINITY;
    assert_eq!(map.spread(&[0.5, 0.25, 2.0], 7), [none, 0.5, 0.25, none, none, 2.0, none]);
    assert_eq!(
        map.spread(&[0.5, 0.25, 2.0], 4),
        [none, 0.5, 0.25, none],
        "ids beyond the text's are left out"
    );
    for (offsets, members, words) in [
        (&[1, 1][..], None, "2 values"),
        (&[1, 1, 5], None, "outside"),
        (&[-1, 1, 3], None, "outside"),
        (&[i64::MAX, 1, i64::MAX], None, "outside"),
        (&[1, 0, 3], None, "twice"),
        (&[1, 1, 3], Some(&[1, 1, 1, 0, 0, 0, 0][..]), "different"),
        (&[1, 1, 3], Some(&[0, 1, 1]), "different"),
    ] {
        let problem = new(offsets, members).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
    assert!(DraftVocabulary::new(None, None, 3, 7).unwrap_err().contains("missing"));
    assert_eq!(DraftVocabulary::new(None, None, 7, 7).unwrap().id(6), 6);
}
