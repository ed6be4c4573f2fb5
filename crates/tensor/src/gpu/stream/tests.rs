//! Streams on any available adapter.

use std::sync::Arc;

use super::super::{Access, Gpu, GpuError, Kernel, Stream, testing::gpu_or_skip};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    count: u32,
    add: u32,
    unused: [u32; 2],
}

/// `b[i] = a[i] * FACTOR + add`.
const SOURCE: &str = "
struct Params { count: u32, add: u32 }
override FACTOR: u32 = 1u;
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < params.count { b[at.x] = a[at.x] * FACTOR + params.add; }
}";

fn scale(gpu: &Gpu, factor: u32) -> Arc<Kernel> {
    let constants = [("FACTOR", f64::from(factor))];
    gpu.kernel("scale", &|| SOURCE.into(), &[Access::Read, Access::Write], &constants).unwrap()
}

fn params(count: usize, add: u32) -> Params {
    Params { count: count as u32, add, unused: [0; 2] }
}

#[test]
fn commands_run_in_the_order_in_which_they_are_recorded() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (double, triple) = (scale(&gpu, 2), scale(&gpu, 3));
    assert!(Arc::ptr_eq(&double, &scale(&gpu, 2)), "a kernel is compiled once");
    let mut stream = gpu.stream();
    let values: Vec<u32> = (0..1000).collect();
    let a = gpu.upload(bytemuck::cast_slice(&values)).unwrap();
    let b = gpu.buffer(4000).unwrap();
    let groups = [16, 1, 1];
    stream.dispatch(&double, &params(1000, 1), &[&a, &b], groups).unwrap();
    stream.dispatch(&triple, &params(1000, 5), &[&b, &a], groups).unwrap();
    // Writes and copies between the passes take their turn.
    stream.write(&a, 8, bytemuck::cast_slice(&[7_u32, 9])).unwrap();
    stream.copy(&a, 8, &a, 400, 8).unwrap();
    stream.clear(&a, 12, 4).unwrap();
    stream.dispatch(&double, &params(500, 0), &[&a, &b], groups).unwrap();
    let read: Vec<u32> = stream.read_values(&b, 0, 1000).unwrap();
    let expected = |i: u32| match i {
        2 | 100 => 14,
        3 => 0,
        101 => 18,
        i if i < 500 => 2 * (3 * (2 * i + 1) + 5),
        i => 2 * i + 1,
    };
    assert!(read.iter().zip(0..).all(|(value, i)| *value == expected(i)), "{read:?}");
    let traffic = stream.traffic();
    assert_eq!((traffic.submissions, traffic.dispatches, traffic.down), (1, 3, 4000));
    // Four blocks of the arena: three of parameters, one of written bytes.
    assert_eq!(traffic.up, 4 * u64::from(gpu.limits().min_uniform_buffer_offset_alignment.max(16)));
}

#[test]
fn a_pass_of_many_kernels_outgrows_the_arena() {
    let Some(gpu) = gpu_or_skip() else { return };
    let add = scale(&gpu, 1);
    let mut stream = gpu.stream();
    let (a, b) = (gpu.buffer(256).unwrap(), gpu.buffer(256).unwrap());
    for i in 0..3000 {
        let (from, to) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
        stream.dispatch(&add, &params(64, 1), &[from, to], [1; 3]).unwrap();
    }
    assert_eq!(stream.read_values::<u32>(&a, 0, 64).unwrap(), vec![3000; 64]);
    assert_eq!(stream.groups.len(), 2, "bind groups are kept");
    let large: Vec<u32> = (0..100_000).collect();
    let c = gpu.buffer(400_000).unwrap();
    stream.clear(&c, 0, 400_000).unwrap();
    stream.write(&c, 0, bytemuck::cast_slice(&large)).unwrap();
    assert_eq!(stream.read_values::<u32>(&c, 99_990, 10).unwrap(), large[99_990..]);
}

#[test]
fn views_start_at_an_offset_and_several_ranges_are_read_at_once() {
    let Some(gpu) = gpu_or_skip() else { return };
    let mut stream = gpu.stream();
    let values: Vec<u32> = (0..256).collect();
    let (a, b) = (gpu.upload(bytemuck::cast_slice(&values)).unwrap(), gpu.buffer(1024).unwrap());
    let views = [(&a, 256, 256), (&b, 512, 256)];
    stream.dispatch_at(&scale(&gpu, 10), &params(64, 0), &views, [1; 3]).unwrap();
    let read = stream.read_all(&[(&b, 512, 6), (&a, 4, 4), (&b, 0, 0)]).unwrap();
    assert_eq!(read, [vec![128, 2, 0, 0, 138, 2], vec![1, 0, 0, 0], vec![]]);
}

#[test]
fn memory_of_a_dropped_buffer_is_released_by_its_bind_groups() {
    let Some(gpu) = gpu_or_skip() else { return };
    let mut stream = gpu.stream();
    let add = scale(&gpu, 1);
    let run = |stream: &mut Stream| {
        let (a, b) = (gpu.buffer(256).unwrap(), gpu.buffer(256).unwrap());
        stream.dispatch(&add, &params(64, 1), &[&a, &b], [1; 3]).unwrap();
        stream.submit().unwrap();
    };
    (0..64).for_each(|_| run(&mut stream));
    assert!(stream.groups.len() < 64, "{}", stream.groups.len());
}

#[test]
fn streams_of_one_device_run_on_different_threads() {
    let Some(gpu) = gpu_or_skip() else { return };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let gpu = gpu.clone();
            scope.spawn(move || {
                let (mut stream, add) = (gpu.stream(), scale(&gpu, 1));
                let (a, b) = (gpu.buffer(256).unwrap(), gpu.buffer(256).unwrap());
                for i in 1..50 {
                    stream.dispatch(&add, &params(64, thread), &[&a, &b], [1; 3]).unwrap();
                    stream.copy(&b, 0, &a, 0, 256).unwrap();
                    assert_eq!(stream.read_values::<u32>(&b, 5, 1).unwrap(), [i * thread]);
                }
            });
        }
    });
}

#[test]
fn what_the_device_would_refuse_later_is_refused_at_once() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, add) = (gpu.stream(), scale(&gpu, 1));
    let (a, b) = (gpu.buffer(256).unwrap(), gpu.buffer(1024).unwrap());
    let p = params(64, 1);
    let invalid =
        |result: super::Result<()>| assert!(matches!(result, Err(GpuError::Invalid(_))), "{result:?}");
    invalid(stream.dispatch(&add, &p, &[&a, &a], [1; 3]));
    invalid(stream.dispatch(&add, &p, &[&a], [1; 3]));
    invalid(stream.dispatch(&add, &[0_u32; 3], &[&a, &b], [1; 3]));
    invalid(stream.dispatch(&add, &[0_u32; 68], &[&a, &b], [1; 3]));
    invalid(stream.dispatch_at(&add, &p, &[(&a, 0, 256), (&b, 64, 256)], [1; 3]));
    invalid(stream.dispatch_at(&add, &p, &[(&a, 0, 256), (&b, 1024, 256)], [1; 3]));
    invalid(stream.write(&a, 2, &[0; 4]));
    invalid(stream.write(&a, 256, &[0; 4]));
    invalid(stream.copy(&b, 0, &b, 8, 16));
    assert!(stream.read(&a, 0, 300).is_err());
    let most = gpu.limits().max_compute_workgroups_per_dimension;
    let groups = stream.dispatch(&add, &p, &[&a, &b], [1, most + 1, 1]);
    assert!(matches!(groups, Err(GpuError::TooLarge { .. })), "{groups:?}");
    let buffer = gpu.buffer(gpu.limits().max_buffer_size + 4);
    assert!(matches!(buffer, Err(GpuError::TooLarge { .. })));
    // Nothing of this has harmed the device.
    stream.dispatch(&add, &p, &[&a, &b], [1; 3]).unwrap();
    assert_eq!(stream.read_values::<u32>(&b, 0, 1).unwrap(), [1]);
}

#[test]
fn after_a_loss_every_call_fails_and_a_device_opened_anew_works() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut stream, add) = (gpu.stream(), scale(&gpu, 1));
    let (a, b) = (gpu.buffer(256).unwrap(), gpu.buffer(256).unwrap());
    stream.dispatch(&add, &params(64, 1), &[&a, &b], [1; 3]).unwrap();
    gpu.lose();
    let lost = |error: GpuError| assert!(matches!(error, GpuError::Lost(_)), "{error}");
    lost(stream.read(&b, 0, 4).unwrap_err());
    lost(stream.dispatch(&add, &params(64, 1), &[&a, &b], [1; 3]).unwrap_err());
    lost(stream.submit().unwrap_err());
    lost(gpu.buffer(4).unwrap_err());
    lost(gpu.write(&a, 0, &[0; 4]).unwrap_err());
    let again = gpu_or_skip().unwrap();
    let mut stream = again.stream();
    let (a, b) = (again.buffer(256).unwrap(), again.buffer(256).unwrap());
    stream.dispatch(&scale(&again, 1), &params(64, 1), &[&a, &b], [1; 3]).unwrap();
    assert_eq!(stream.read_values::<u32>(&b, 0, 1).unwrap(), [1]);
}
