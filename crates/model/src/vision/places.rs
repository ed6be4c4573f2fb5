//! Where the patches of a frame are, and what towers make of it: rotary angles, and positions from a smaller or larger table.

use specreel_tensor::tower::{Angles, Tap};

/// Base of the rotary frequencies in the published towers.
pub(crate) const THETA: f32 = 10000.0;

/// Row and column of each of `rows` × `columns` patches: square by square of `side` × `side` patches, row by row in a square.
/// `side` divides both numbers.
pub(crate) fn in_squares(
    rows: usize,
    columns: usize,
    side: usize,
) -> impl Iterator<Item = [usize; 2]> + Clone {
    let squares = (0..rows / side).flat_map(move |row| (0..columns / side).map(move |column| [row, column]));
    squares.flat_map(move |square| in_square(square, side))
}

/// Row and column of each patch of one square, row by row.
pub(crate) fn in_square([row, column]: [usize; 2], side: usize) -> impl Iterator<Item = [usize; 2]> + Clone {
    (0..side * side).map(move |patch| [row * side + patch / side, column * side + patch % side])
}

/// Angles of rows and columns, each a quarter of a head, computed in f32: `patches × head_dim / 2`.
pub(crate) fn angles(head_dim: usize, theta: f32, places: impl Iterator<Item = [usize; 2]>) -> Angles {
    let quarter = head_dim / 4;
    let inverse: Vec<f32> =
        (0..quarter).map(|i| 1.0 / theta.powf((2 * i) as f32 / (2 * quarter) as f32)).collect();
    let angles: Vec<f32> =
        places.flatten().flat_map(|at| inverse.iter().map(move |f| at as f32 * f)).collect();
    Angles {
        cos: angles.iter().map(|angle| angle.cos()).collect(),
        sin: angles.iter().map(|angle| angle.sin()).collect(),
    }
}

/// For one of `length` places on an axis: the entry of a table of `side` entries before it, and the share of the entry after it.
/// The ends of the axis are the table's.
fn on_axis(place: usize, length: usize, side: usize) -> (usize, f32) {
    let at = place as f32 * (side - 1) as f32 / length.saturating_sub(1).max(1) as f32;
    let before = at.floor();
    (before as usize, at - before)
}

/// Bilinear interpolation of a table of `side × side` rows at the places of patches in a frame of `rows × columns`, whose corners
/// are the table's: for each of the four neighbors, its tap for every patch.
pub(crate) fn interpolated(
    places: impl Iterator<Item = [usize; 2]> + Clone,
    [rows, columns]: [usize; 2],
    side: usize,
) -> Vec<Vec<Tap>> {
    let choose = |(before, share): (usize, f32), later: bool| match later {
        false => (before, 1.0 - share),
        true => ((before + 1).min(side - 1), share),
    };
    let four = [(false, false), (false, true), (true, false), (true, true)].map(|(below, right)| {
        let tap = |[row, column]: [usize; 2]| {
            let (y, down) = choose(on_axis(row, rows, side), below);
            let (x, across) = choose(on_axis(column, columns, side), right);
            Tap { row: (y * side + x) as u32, weight: down * across }
        };
        places.clone().map(tap).collect()
    });
    four.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_in_reading_order() {
        let places: Vec<[usize; 2]> = in_squares(2, 4, 2).collect();
        assert_eq!(places, [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]);
        assert_eq!(in_squares(3, 3, 3).collect::<Vec<_>>(), in_squares(3, 3, 1).collect::<Vec<_>>());
        assert_eq!(in_square([1, 0], 2).collect::<Vec<_>>(), [[2, 0], [2, 1], [3, 0], [3, 1]]);
    }

    fn values(table: &[f32], rows: usize, columns: usize, side: usize) -> Vec<f32> {
        let taps = interpolated(in_squares(rows, columns, 1), [rows, columns], side);
        let sum = |i: usize| taps.iter().map(|taps| table[taps[i].row as usize] * taps[i].weight).sum();
        (0..rows * columns).map(sum).collect()
    }

    #[test]
    fn tables_are_interpolated_between_their_corners() {
        // Value 10 row + column: linear, so interpolation is exact.
        let table: Vec<f32> = (0..16).map(|i| (10 * (i / 4) + i % 4) as f32).collect();
        for (rows, columns) in [(4, 4), (2, 7), (8, 2), (5, 16), (1, 3), (1, 1)] {
            let at = |place: usize, length: usize| match length {
                1 => 0.0,
                _ => 3.0 * place as f32 / (length - 1) as f32,
            };
            for (i, got) in values(&table, rows, columns, 4).into_iter().enumerate() {
                let want = 10.0 * at(i / columns, rows) + at(i % columns, columns);
                assert!((got - want).abs() < 1e-4, "{rows}x{columns} {i}: {got} for {want}");
            }
        }
        // A grid of the table's size takes its rows as they are.
        assert_eq!(values(&table, 4, 4, 4), table);
        // A table of one row has it everywhere.
        assert_eq!(values(&[5.0], 2, 3, 1), [5.0; 6]);
    }

    #[test]
    fn rows_and_columns_turn_a_quarter_each() {
        let Angles { cos, sin } = angles(8, THETA, [[0, 0], [3, 2]].into_iter());
        assert_eq!((&cos[..4], &sin[..4]), (&[1.0; 4][..], &[0.0; 4][..]));
        let want = [3.0f32, 0.03, 2.0, 0.02];
        for ((cos, sin), angle) in cos[4..].iter().zip(&sin[4..]).zip(want) {
            assert!((cos - angle.cos()).abs() < 1e-6 && (sin - angle.sin()).abs() < 1e-6);
        }
    }
}
