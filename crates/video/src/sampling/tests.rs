use super::*;

const QWEN: Rule = Rule::QWEN_VL;

fn n(total: usize, fps: f64, rule: &Rule, sampling: Sampling) -> usize {
    plan(total, fps, rule, sampling).unwrap().indices.len()
}

#[test]
fn the_family_rule_matches_the_reference_counts() {
    // (total, video fps, frames): smart_nframes with its defaults; fewer than two frames give all of them.
    let table = [
        (1, 30.0, 1),
        (2, 30.0, 2),
        (3, 30.0, 2),
        (4, 30.0, 4),
        (5, 30.0, 4),
        (30, 30.0, 4),
        (60, 30.0, 4),
        (75, 30.0, 4),
        (90, 30.0, 6),
        (100, 29.97, 6),
        (300, 30.0, 20),
        (900, 30.0, 60),
        (250, 25.0, 20),
        (240, 23.976, 20),
        (216_000, 30.0, 768),
        (700, 0.5, 700),
        (10, 1.0, 10),
    ];
    for (total, fps, want) in table {
        assert_eq!(n(total, fps, &QWEN, Sampling::Auto), want, "{total} frames at {fps}");
    }
}

#[test]
fn requested_counts_are_floored_to_pairs_and_limited_to_the_video() {
    let table = [(1, 2), (2, 2), (3, 2), (7, 6), (8, 8), (99, 98), (100, 100), (1000, 100)];
    for (asked, want) in table {
        assert_eq!(n(100, 25.0, &QWEN, Sampling::Frames(asked)), want, "--frames {asked}");
    }
    assert_eq!(n(101, 25.0, &QWEN, Sampling::Frames(1000)), 100);
    assert_eq!(n(1, 25.0, &QWEN, Sampling::Frames(8)), 1);
    assert_eq!(n(100, 25.0, &Rule::LLAVA_ONEVISION, Sampling::Frames(7)), 7);
}

#[test]
fn requested_rates_follow_the_same_rule() {
    for (fps, want) in [(0.1, 4), (1.0, 10), (1.05, 10), (1.1, 10), (4.0, 40), (24.0, 240), (1000.0, 250)] {
        assert_eq!(n(250, 25.0, &QWEN, Sampling::Fps(fps)), want, "--fps {fps}");
    }
}

#[test]
fn a_fixed_count_applies_only_to_auto() {
    let llava = Rule::LLAVA_ONEVISION;
    assert_eq!(n(1000, 25.0, &llava, Sampling::Auto), 32);
    assert_eq!(n(10, 25.0, &llava, Sampling::Auto), 10);
    assert_eq!(n(1000, 25.0, &llava, Sampling::Fps(2.0)), 80);
    assert_eq!(n(1000, 25.0, &llava, Sampling::Fps(0.01)), 1);
}

#[test]
fn indices_round_as_torch_does() {
    // round(torch.linspace(0, total - 1, n)).long()
    let table: [(usize, usize, &[usize]); 8] = [
        (1, 1, &[0]),
        (2, 2, &[0, 1]),
        (10, 4, &[0, 3, 6, 9]),
        (11, 4, &[0, 3, 7, 10]),
        (6, 3, &[0, 2, 5]), // 2.5 goes to 2
        (8, 3, &[0, 4, 7]), // 3.5 goes to 4
        (300, 6, &[0, 60, 120, 179, 239, 299]),
        (5, 5, &[0, 1, 2, 3, 4]),
    ];
    for (total, n, want) in table {
        assert_eq!(spread(total, n), want, "linspace(0, {total} - 1, {n})");
    }
}

#[test]
fn indices_increase_from_first_to_last() {
    for total in [2usize, 3, 7, 100, 4801, 1_000_003] {
        for asked in [2usize, 4, 32, 768] {
            let plan = plan(total, 30.0, &QWEN, Sampling::Frames(asked)).unwrap();
            assert!(plan.indices.windows(2).all(|w| w[0] < w[1]), "{total}/{asked}");
            assert_eq!(plan.indices.first(), Some(&0));
            assert_eq!(plan.indices.last(), Some(&(total - 1)));
            assert_eq!(plan.indices.len(), plan.timestamps_s.len());
        }
    }
}

#[test]
fn the_sampled_rate_is_that_of_the_frames_taken() {
    let plan = plan(300, 30.0, &QWEN, Sampling::Auto).unwrap();
    assert_eq!(plan.sample_fps, 2.0);
    assert_eq!(plan.timestamps_s[1], plan.indices[1] as f64 / 30.0);
}

#[test]
fn invalid_values_are_refused() {
    for fps in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e9] {
        assert!(matches!(plan(10, 25.0, &QWEN, Sampling::Fps(fps)), Err(SamplingError::Fps(_))), "{fps}");
    }
    for frames in [0, MAX_FRAMES + 1, usize::MAX] {
        let asked = plan(10, 25.0, &QWEN, Sampling::Frames(frames));
        assert_eq!(asked, Err(SamplingError::Frames(frames)));
    }
    assert_eq!(plan(0, 25.0, &QWEN, Sampling::Auto), Err(SamplingError::NoFrames));
    for fps in [0.0, -25.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(plan(9, fps, &QWEN, Sampling::Auto), Err(SamplingError::VideoFps(_))));
    }
    let rule = Rule { multiple: 0, ..QWEN };
    assert_eq!(plan(9, 25.0, &rule, Sampling::Auto), Err(SamplingError::Rule(rule)));
}

#[test]
fn qwen3_vl_floors_the_count_and_rounds_the_indices() {
    let rule = &Rule::QWEN3_VL;
    assert_eq!(plan(6, 5.0, rule, Sampling::Frames(3)).unwrap().indices, [0, 2, 5]);
    assert_eq!(plan(9, 5.0, rule, Sampling::Frames(7)).unwrap().indices, [0, 1, 3, 4, 5, 7, 8]);
    assert_eq!(n(250, 25.0, rule, Sampling::Fps(1.1)), 11);
}

#[test]
fn smolvlm_rounds_the_count_truncates_the_indices_and_leaves_the_ends_out() {
    let rule = &Rule::SMOLVLM;
    let indices = |total, sampling| plan(total, 30.0, rule, sampling).unwrap().indices;
    // A limit of frames is what the rule compares with.
    assert_eq!(indices(300, Sampling::Frames(4)), [30, 110, 190, 270]);
    assert_eq!(indices(300, Sampling::Frames(8)), [0, 42, 85, 128, 170, 213, 256, 299]);
    assert_eq!(indices(300, Sampling::Frames(1)), [30]);
    assert_eq!(indices(5, Sampling::Frames(64)), [0, 1, 2, 3, 4]);
    assert_eq!(indices(300, Sampling::Fps(0.5)).len(), 5);
    assert_eq!(indices(20, Sampling::Fps(1000.0)).len(), 20);
}

#[test]
fn minicpmv_takes_the_first_frame_of_every_second() {
    let rule = &Rule::MINICPM_V;
    let indices = |total, fps, sampling| plan(total, fps, rule, sampling).unwrap().indices;
    assert_eq!(indices(60, 24.0, Sampling::Fps(2.0)), [0, 12, 24, 36, 48]);
    // 128 seconds have 128 frames, and 129 as many: tenths of a second, evenly chosen.
    assert_eq!(indices(3072, 24.0, Sampling::Auto)[127], 127 * 24);
    let longer = indices(3096, 24.0, Sampling::Auto);
    assert_eq!((longer.len(), longer[1], longer[127]), (128, 24, 3093));
    // More than one for every second are spread from the first frame to the last.
    assert_eq!(indices(48, 24.0, Sampling::Frames(4)), [0, 15, 31, 47]);
    assert_eq!(indices(240, 24.0, Sampling::Frames(4)), [0, 79, 158, 237]);
    // No frame twice.
    assert_eq!(indices(20, 10.0, Sampling::Fps(1000.0)).len(), 20);
}

#[test]
fn files_of_a_checkpoint_change_its_rule() {
    let rule = Rule::SMOLVLM.with(Some(2.0), None, Some(8));
    assert_eq!((n(90, 30.0, &rule, Sampling::Auto), n(900, 30.0, &rule, Sampling::Auto)), (6, 8));
    assert_eq!(Rule::QWEN3_VL.with(None, None, None), Rule::QWEN3_VL);
    let few = Rule::QWEN3_VL.with(None, Some(9), Some(2));
    assert_eq!((few.min_frames, few.max_frames), (2, 2));
    assert_eq!(n(900, 30.0, &few, Sampling::Fps(1.0)), 2);
}
