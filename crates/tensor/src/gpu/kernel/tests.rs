//! Kernels in both forms.

use super::{
    super::testing::{gpu_or_skip, plain_gpu_or_skip},
    *,
};

const BINDINGS: [Access; 2] = [Access::Read, Access::Write];

/// `b[i] = a[i] · a[i + 1]`, of four 8-bit integers each.
const DOTS: &str = "
@group(0) @binding(0) var<uniform> count: vec4<u32>;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> b: array<i32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < count.x { b[at.x] = dot4I8Packed(a[at.x], a[at.x + 1u]); }
}";

fn dots(gpu: &Gpu, words: &[u32]) -> Vec<i32> {
    let kernel = gpu.kernel("dots", &|| DOTS.into(), &BINDINGS, &[]).unwrap();
    let (a, b) =
        (gpu.upload(bytemuck::cast_slice(words)).unwrap(), gpu.buffer(4 * words.len() as u64).unwrap());
    let (mut stream, count) = (gpu.stream(), words.len() - 1);
    stream.dispatch(&kernel, &[count as u32, 0, 0, 0], &[&a, &b], [count.div_ceil(64) as u32, 1, 1]).unwrap();
    stream.read_values(&b, 0, count).unwrap()
}

#[test]
fn plain_kernels_compute_the_same() {
    let (Some(gpu), Some(plain)) = (gpu_or_skip(), plain_gpu_or_skip()) else { return };
    let mut words = vec![0x8080_8080, 0x8080_8080, 0x7f80_01ff, 0xff01_807f, 0];
    words.extend((1..500_u32).map(|i| i.wrapping_mul(2_654_435_769)));
    let by_hand = |[a, b]: [u32; 2]| -> i32 {
        let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
        pairs.map(|(x, y)| i32::from(x as i8) * i32::from(y as i8)).sum()
    };
    let expected: Vec<i32> = words.windows(2).map(|w| by_hand([w[0], w[1]])).collect();
    assert!(plain.is_plain());
    assert_eq!(dots(&plain, &words), expected);
    assert_eq!(dots(&gpu, &words), expected);
}

#[test]
fn a_kernel_that_is_refused_falls_back_to_its_plain_form_and_says_so() {
    let Some(gpu) = gpu_or_skip() else { return };
    let compile = |source: &str| gpu.compile("dots", 99, source, &BINDINGS, &[]);
    let broken = DOTS.replace("count.x", "count.nothing");
    let refused = || compile(&broken);
    let GpuError::Shader { kernel, why } = refused().unwrap_err() else { panic!("another error") };
    assert!(kernel == "dots" && why.contains("nothing") && !why.contains('\n'), "{why}");
    // Without a plain form, the error stays; if that is also refused, its error counts.
    assert!(gpu.or_plain(refused(), None, compile).is_err());
    assert!(gpu.or_plain(refused(), Some(&broken), compile).is_err());
    assert!(gpu.notes().is_empty());
    for _ in 0..2 {
        drop(gpu.or_plain(refused(), plain_form(DOTS).as_deref(), compile).unwrap());
    }
    let notes = gpu.notes();
    assert!(
        notes.len() == 1 && notes[0].contains("kernel `dots`, which runs in its plain form"),
        "{notes:?}"
    );
    assert_eq!(plain_form("fn main() {}"), None);
    // The device is none the worse for it.
    assert_eq!(dots(&gpu, &[0x0101_0101, 0x0202_0202]), [8]);
}

#[test]
fn a_kernel_is_compiled_once_for_its_constants() {
    let Some(gpu) = gpu_or_skip() else { return };
    let source = || DOTS.to_owned() + "\noverride WIDTH: u32 = 1u;";
    let kernel = |width| gpu.kernel("dots", &source, &BINDINGS, &[("WIDTH", width)]).unwrap();
    assert!(Arc::ptr_eq(&kernel(1.0), &kernel(1.0)) && !Arc::ptr_eq(&kernel(1.0), &kernel(2.0)));
    assert_ne!(kernel(1.0).id, kernel(2.0).id);
}
