//! The largest values of rows on a GPU.

use bytemuck::{Pod, Zeroable};

use crate::gpu::{Access, GpuError, Result, Rows, Stream, logits::Scratch, rows::filled};

/// The largest number of a row's largest values that are found on the device.
pub const MOST: usize = 64;
/// Values that a workgroup sorts, as in `shaders/largest.wgsl`.
const SORTED: usize = 1024;
/// Values of which a workgroup finds the largest by groups, and their groups, as in `shaders/group_tops.wgsl`.
const GROUPED: [usize; 2] = [4096, 256];
/// Values of a group.
const GROUP: usize = GROUPED[0] / GROUPED[1];
/// Values of a row from which on most groups are left out before anything is sorted.
const WIDE: usize = 8192;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SearchParams {
    count: u32,
    width: u32,
    stride: u32,
    pairs_stride: u32,
    keep: u32,
    out_stride: u32,
    unused: [u32; 2],
}

/// The `count` (at most [`MOST`]) largest of the first `width` values of every row, with their indices: descending, the lowest index
/// first where tied. Waits for them. Fails if more are wanted, or memory is missing.
pub fn largest(
    stream: &mut Stream,
    x: &Rows,
    width: usize,
    count: usize,
    scratch: &mut Scratch,
) -> Result<Vec<Vec<(u32, f32)>>> {
    let (rows, width) = (x.rows(), width.min(x.width()));
    if rows == 0 || width == 0 || count == 0 {
        return Ok(vec![Vec::new(); rows]);
    }
    let sorted = &mut scratch.sorted;
    record(stream, x, width, count, sorted)?;
    Ok(pairs(&stream.read_values(filled(&sorted[1])?, 0, rows * count)?, count))
}

/// The largest values of each row, and their indices, from the kernel's output.
pub(crate) fn pairs(words: &[[u32; 2]], count: usize) -> Vec<Vec<(u32, f32)>> {
    let row = |words: &[[u32; 2]]| {
        let found = words.iter().filter(|[_, id]| *id != u32::MAX);
        found.map(|[value, id]| (*id, f32::from_bits(*value))).collect()
    };
    words.chunks_exact(count).map(row).collect()
}

/// Record a search for the largest values of all rows; the second of `sorted` holds them.
pub(crate) fn record(
    stream: &mut Stream,
    x: &Rows,
    width: usize,
    count: usize,
    sorted: &mut [Rows; 2],
) -> Result<()> {
    if count > MOST {
        let what = "the number of largest values".into();
        return Err(GpuError::TooLarge { what, size: count as u64, limit: MOST as u64 });
    }
    let search = Search { x, width: width.min(x.width()), count };
    if search.width <= WIDE {
        let mut held = search.sort(stream, SortedValues::Values, search.width, sorted)?;
        while held > count {
            held = search.sort(stream, SortedValues::Pairs, held, sorted)?;
        }
        return Ok(());
    }
    // Of a wide row only the groups of the largest are sorted.
    let mut held = search.group_tops(stream, sorted)?;
    while held > count {
        held = search.sort(stream, SortedValues::Pairs, held, sorted)?;
    }
    search.sort(stream, SortedValues::Groups, count * GROUP, sorted).map(drop)
}

/// Where a kernel takes its values from, as in `shaders/largest.wgsl`.
#[derive(Clone, Copy)]
enum SortedValues {
    Values = 0,
    Pairs = 1,
    Groups = 2,
}

struct Search<'a> {
    x: &'a Rows,
    width: usize,
    count: usize,
}

impl Search<'_> {
    /// Record a sort of `held` values of each row, in blocks; the number of pairs that are kept of a row. Pairs are read from the
    /// second of `sorted`, and written to what is the second then.
    fn sort(
        &self,
        stream: &mut Stream,
        from: SortedValues,
        held: usize,
        sorted: &mut [Rows; 2],
    ) -> Result<usize> {
        use Access::{Read, Write};
        let (gpu, rows) = (stream.gpu().clone(), self.x.rows());
        let blocks = held.div_ceil(SORTED);
        let kept = blocks * self.count;
        let params = SearchParams {
            count: held as u32,
            width: self.width as u32,
            stride: self.x.width() as u32,
            pairs_stride: if matches!(from, SortedValues::Groups) { self.count } else { held } as u32,
            keep: self.count as u32,
            out_stride: kept as u32,
            unused: [0; 2],
        };
        let kernel = gpu.kernel(
            "largest",
            &|| [include_str!("../shaders/ordered.wgsl"), include_str!("../shaders/largest.wgsl")].concat(),
            &[Read, Read, Write],
            &[("FROM", f64::from(from as u8))],
        )?;
        let [ours, theirs] = sorted;
        let out = ours.reserve(&gpu, rows, 2 * kept)?;
        let values = filled(self.x)?;
        let pairs = if matches!(from, SortedValues::Values) { values } else { filled(theirs)? };
        stream.dispatch(&kernel, &params, &[values, pairs, out], [blocks as u32, rows as u32, 1])?;
        sorted.swap(0, 1);
        Ok(kept)
    }

    fn group_tops(&self, stream: &mut Stream, sorted: &mut [Rows; 2]) -> Result<usize> {
        let (gpu, rows) = (stream.gpu().clone(), self.x.rows());
        let blocks = self.width.div_ceil(GROUPED[0]);
        let groups = blocks * GROUPED[1];
        let kernel = gpu.kernel(
            "tops of groups",
            &|| {
                [include_str!("../shaders/ordered.wgsl"), include_str!("../shaders/group_tops.wgsl")].concat()
            },
            &[Access::Read, Access::Write],
            &[],
        )?;
        let params = [self.width as u32, self.x.width() as u32, groups as u32, 0];
        let out = sorted[0].reserve(&gpu, rows, 2 * groups)?;
        stream.dispatch(&kernel, &params, &[filled(self.x)?, out], [blocks as u32, rows as u32, 1])?;
        sorted.swap(0, 1);
        Ok(groups)
    }
}
