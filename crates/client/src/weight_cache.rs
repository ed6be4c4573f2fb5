//! Where converted weights are kept: environment, configuration, cache directory.

use crate::{Config, Settings, dirs::Dirs};
use specreel_checkpoint::{WeightCache, weight_cache::DEFAULT_LIMIT};

/// A directory, or `off`.
const VARIABLE: &str = "SPECREEL_WEIGHT_CACHE";

/// The cache for runs with these settings; `None` if it is switched off.
pub fn of(settings: &Settings) -> Option<WeightCache> {
    let off = std::env::var_os(VARIABLE).is_some_and(|value| value.eq_ignore_ascii_case("off"));
    (settings.weight_cache.or(true) && !off).then(|| find(settings)).flatten()
}

/// The cache, whether it is used or not; `None` without a home directory.
pub fn configured(config: &Config) -> Option<WeightCache> {
    find(&Settings::merge(Default::default(), config))
}

fn find(settings: &Settings) -> Option<WeightCache> {
    let named = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty() && !dir.eq_ignore_ascii_case("off"));
    let dir = named.map(Into::into).or_else(|| Dirs::find().map(|dirs| dirs.cache.join("weights")))?;
    let limit =
        settings.weight_cache_size.value.map_or(DEFAULT_LIMIT, |size| size.saturating_mul(1_000_000_000));
    Some(WeightCache { dir, limit })
}
