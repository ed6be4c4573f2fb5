//! The order of the patches of a temporal grid, which of them attend to each other, and what visual embeddings are made of.

use super::{
    LlavaConfig, TowerConfig, VisionConfig,
    llava::{POOL, taps},
    on_device::Output,
    windows::Windows,
};
use crate::model::{
    device::tower_ops::{Angles, TowerLayout},
    processor::Grid,
};

/// What is wrong with a grid for a tower.
pub(super) fn mismatch(config: &TowerConfig, grid: Grid) -> Option<String> {
    match config {
        TowerConfig::Qwen(VisionConfig { merge, .. }) => {
            let whole = grid.h.is_multiple_of(*merge) && grid.w.is_multiple_of(*merge);
            (!whole).then(|| format!("rows and columns must be multiples of {merge}"))
        }
        TowerConfig::Llava(LlavaConfig { tower, .. }) => {
            let side = tower.side();
            ((grid.h, grid.w) != (side, side)).then(|| format!("expected {side}x{side} patches a frame"))
        }
    }
}

/// The layout of a grid that a tower accepts.
pub(super) fn of(config: &TowerConfig, grid: Grid, output: Output) -> TowerLayout {
    match config {
        TowerConfig::Qwen(config) => qwen(config, grid, output),
        TowerConfig::Llava(config) => llava(config, output),
    }
}

/// States are in the order of windows, cell by cell; a visual token for each cell.
fn qwen(config: &VisionConfig, grid: Grid, output: Output) -> TowerLayout {
    let (cell, columns) = (config.merge * config.merge, grid.w / config.merge);
    let windows = Windows::new(grid.h / config.merge, columns, config.window);
    let angles = angles(config, &windows, columns);
    let patches = |&token: &u32| (0..cell as u32).map(move |patch| token * cell as u32 + patch);
    let restored = windows.restore.iter();
    let (sources, taps) = match output {
        Output::Embeddings => (windows.restore.len(), TowerLayout::reordered(restored.copied())),
        Output::States => (windows.restore.len() * cell, TowerLayout::reordered(restored.flat_map(patches))),
    };
    TowerLayout {
        heads: config.heads,
        head_dim: config.head_dim(),
        order: windows.order.iter().flat_map(patches).collect(),
        windows: windows.ranges(cell),
        angles: Some(Angles {
            cos: angles.iter().map(|angle| angle.cos()).collect(),
            sin: angles.iter().map(|angle| angle.sin()).collect(),
        }),
        sources,
        taps,
    }
}

/// All patches of a picture attend to each other; their states are pooled.
fn llava(LlavaConfig { tower, .. }: &LlavaConfig, output: Output) -> TowerLayout {
    let patches = tower.side() * tower.side();
    let order = 0..patches as u32;
    TowerLayout {
        heads: tower.heads,
        head_dim: tower.hidden / tower.heads,
        order: order.clone().collect(),
        windows: vec![0..patches; 1],
        angles: None,
        sources: patches,
        taps: match output {
            Output::Embeddings => taps(tower.side(), tower.side().div_ceil(POOL)),
            Output::States => TowerLayout::reordered(order),
        },
    }
}

/// Angles of rows and columns (theta 10000), each a quarter of the head, computed in f32: `patches × head_dim / 2`.
///
/// Patches are in the order of the states: cells in the order of `windows`, row by row within a cell.
fn angles(config: &VisionConfig, windows: &Windows, columns: usize) -> Vec<f32> {
    let quarter = config.head_dim() / 4;
    let inverse: Vec<f32> =
        (0..quarter).map(|i| 1.0 / 10000f32.powf((2 * i) as f32 / (2 * quarter) as f32)).collect();
    let merge = config.merge;
    let mut values = Vec::with_capacity(windows.order.len() * merge * merge * 2 * quarter);
    for cell in &windows.order {
        let (row, column) = (*cell as usize / columns, *cell as usize % columns);
        for patch in 0..merge * merge {
            for at in [row * merge + patch / merge, column * merge + patch % merge] {
                values.extend(inverse.iter().map(|f| at as f32 * f));
            }
        }
    }
    values
}
