//! The methods that tables name: the product's presets, and those in `lab/methods` that only reproduce a row.

use specreel_pruners::LabMethod;
use specreel_speculate::{Method, MethodError};

/// All presets that leave the target whole: the product's, then the laboratory's.
pub fn presets() -> impl Iterator<Item = &'static Method> {
    let own = LabMethod::all().iter().filter(|own| own.pruner.is_none());
    Method::presets().iter().chain(own.map(|own| &own.method))
}

/// The names of all presets, those that prune their target among them.
pub fn names() -> impl Iterator<Item = String> {
    let own = LabMethod::all().iter().map(|own| &own.method);
    Method::presets().iter().chain(own).map(|method| method.name.clone())
}

/// The preset of this name. Fails with [`MethodError::Unknown`] with the known names.
pub fn preset(name: &str) -> Result<Method, MethodError> {
    let found = presets().find(|method| method.name == name).cloned();
    found.ok_or_else(|| MethodError::Unknown { name: name.into(), known: names().collect() })
}
