//! The estimate, and the alternatives that are suggested.

use std::path::Path;

use super::*;
use specreel_model::processor::FrameLimits;

fn pair(dtype: WeightType) -> Footprint {
    let read = |part: &str| {
        Facts::read(&Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("assets/demo").join(part))
            .unwrap()
    };
    let (target, drafter) = (read("target"), Some(read("drafter")));
    let memories = [DeviceMemory::System, DeviceMemory::System];
    Footprint {
        names: "a with b".into(),
        dtype,
        drafter_dtype: None,
        kv_type: KvType::Auto,
        target,
        drafter,
        memories,
        mapped: 0,
    }
}

fn long(pair: &Footprint) -> Work {
    let video = Video {
        frames: 512,
        size: FrameSize::new(720, 1280),
        limits: FrameLimits::default(),
        new_tokens: 256,
    };
    Work { sample: pair.target.sample(&video).unwrap(), frames: 512, new_tokens: 256 }
}

#[test]
fn what_fits_passes() {
    let pair = pair(WeightType::Auto);
    let work = long(&pair);
    let need = pair.need(&Pool::System, true, WeightType::Auto, Some(&work)).total();
    assert_eq!(pair.fits(true, Some(&work), need), Ok(()));
    let failure = pair.fits(true, Some(&work), need - 1).unwrap_err();
    assert_eq!((failure.class, failure.class.exit_code()), (FailureClass::Memory, 4));
    assert!(failure.error.starts_with("a with b in q8_0 need about "), "{}", failure.error);
}

#[test]
fn a_run_of_loaded_models_needs_no_weights() {
    let pair = pair(WeightType::Auto);
    let work = long(&pair);
    let (whole, run) = (pair.need(&Pool::System, true, WeightType::Auto, Some(&work)), pair.run_bytes(&work));
    assert_eq!(run, whole.total() - whole.weights - whole.tower);
    assert_eq!(pair.fits(false, Some(&work), run), Ok(()));
    let failure = pair.fits(false, Some(&work), run - 1).unwrap_err();
    assert!(failure.error.contains("for this video"), "{}", failure.error);
    let hint = failure.hint.unwrap();
    assert!(hint.contains("--frames 256 needs") && !hint.contains("--dtype"), "{hint}");
}

#[test]
fn mapped_weights_are_not_available_to_a_run() {
    let pair = pair(WeightType::Auto);
    let Some(available) = usable() else { return };
    assert!(pair.check_available(available / 4));
    let pair = pair.with_mapped(available);
    assert!(!pair.check_available(available / 4));
    assert!(pair.check_run(&long(&pair)).is_err());
}

#[test]
fn the_alternatives_fit() {
    let pair = pair(WeightType::F32);
    let work = long(&pair);
    let at = |dtype, work: &Work| pair.need(&Pool::System, true, dtype, Some(work)).total();
    // A little less than f32 takes: bf16 fits, and so do fewer frames.
    let available = at(WeightType::F32, &work) - 1;
    let hint = pair.fits(true, Some(&work), available).unwrap_err().hint.unwrap();
    assert!(hint.contains("--dtype bf16 needs") && hint.contains("--frames 256 needs"), "{hint}");
    assert!(hint.contains("without a drafter it needs") && hint.ends_with("--ignore-memory tries it anyway"));
    assert!(at(WeightType::F32, &work.half()) <= available && at(WeightType::Bf16, &work) <= available);
    assert!(hint.contains("; or --kv-type q8_0 needs "), "{hint}");
    let nothing = pair.fits(true, Some(&work), 1).unwrap_err().hint.unwrap();
    assert!(nothing.contains("a smaller model"), "{nothing}");
}

#[test]
fn a_card_is_counted_by_itself() {
    let pair = pair(WeightType::Auto);
    let work = long(&pair);
    let card = |bytes| DeviceMemory::Own { device: "gpu:0 (a)".into(), bytes };
    let on = |memories: [DeviceMemory; 2]| Footprint { memories, ..pair.clone() };
    let whole = pair.need(&Pool::System, true, WeightType::Q8_0, Some(&work));
    let large = on([card(1 << 40), card(1 << 40)]);
    // Rows pass through the system; all else is on the card.
    let beside = large.need(&Pool::System, true, WeightType::Q8_0, Some(&work));
    assert_eq!(beside, Need { work: whole.work, ..Need::default() });
    assert_eq!(large.need(&large.cards()[0], true, WeightType::Q8_0, None).tower, whole.tower);
    assert_eq!(large.fits(true, Some(&work), beside.total()), Ok(()));
    let small = on([card(1 << 20), card(1 << 20)]);
    let failure = small.fits(false, Some(&work), u64::MAX).unwrap_err();
    assert_eq!(failure.class, FailureClass::Memory);
    assert!(failure.error.ends_with("but gpu:0 (a) has 1.0 MB"), "{}", failure.error);
    let hint = failure.hint.unwrap();
    assert!(hint.contains("--device cpu") && !hint.contains("--kv-type"), "{hint}");
    // A card through wgpu has the CPU's types; a card through candle does not.
    let needed = large.need(&large.cards()[0], true, WeightType::Q8_0, Some(&work)).total() - 1;
    for (device, has) in [("gpu:0 (a)", true), ("cuda:0", false)] {
        let bytes = needed + needed / 15;
        let tight = on([(); 2].map(|()| DeviceMemory::Own { device: device.into(), bytes }));
        let hint = tight.fits(true, Some(&work), u64::MAX).unwrap_err().hint.unwrap();
        assert_eq!(hint.contains("--kv-type q8_0 needs "), has, "{hint}");
    }
    // Only the drafter is on the card.
    let mixed = on([DeviceMemory::System, card(1 << 40)]);
    let half = mixed.need(&mixed.cards()[0], true, WeightType::Q8_0, Some(&work));
    assert!(half.weights > 0 && half.weights < whole.weights && half.tower < whole.tower);
    assert_eq!(mixed.budget(Some(7)), Some(7));
    assert!(small.budget(None).is_some_and(|bytes| bytes < 1 << 20));
    assert_eq!(pair.budget(None), None);
    // A card stores some types of GGUF files in more bytes.
    let mut stored = on([card(1 << 40), DeviceMemory::System]);
    (stored.target.stored, stored.target.on_gpu) = (Some((10, "iq2_xs")), 20);
    assert_eq!(stored.need(&stored.cards()[0], true, WeightType::Q8_0, None).weights, 20);
}
