//! `specreel models remove`: a cached model, and the files that only it uses.

use super::*;
use specreel_client::catalog::local::remove;

pub fn run(model: &Path, json: bool) -> Result<i32, End> {
    let dir = catalog::directory("cached", model)?;
    let freed = remove(&dir)?;
    let text = match json {
        true => format!("{}\n", json!({ "removed": dir, "bytes": freed })),
        false => format!("{} removed, {} freed\n", color::plain(&model.display().to_string()), bytes(freed)),
    };
    print(&text)
}
