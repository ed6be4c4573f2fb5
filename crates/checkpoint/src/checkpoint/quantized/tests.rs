use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::*;
use specreel_tensor::{Weights, cpu::table::Values};

const NAME: &str = "model.layers.0.mlp.up_proj.weight";

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/quantized")).join(name)
}

/// A tensor of a file that is written.
struct Tensor {
    name: &'static str,
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A directory with a quantization and tensors, whose names are those of one matrix.
fn write(quantization: &Value, tensors: &[Tensor]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), json!({ "quantization_config": quantization }).to_string())
        .unwrap();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for Tensor { name, dtype, shape, bytes } in tensors {
        let name = NAME.replace("weight", name);
        let place = [data.len(), data.len() + bytes.len()];
        header.insert(name, json!({"dtype": dtype, "shape": shape, "data_offsets": place}));
        data.extend(bytes);
    }
    let header = Value::Object(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
    dir
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Bytes that repeat after a while, without those that are not numbers in FP8.
fn codes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 31 % 251) as u8).map(|code| if code & 127 == 127 { 1 } else { code }).collect()
}

#[test]
fn matrices_of_all_formats_have_the_values_of_their_formulas() {
    let mut formats = 0;
    for folder in fs::read_dir(fixture("")).unwrap() {
        let folder = folder.unwrap().path();
        let bytes = fs::read(folder.join("expected.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let expected = file.tensor("expected").unwrap();
        let shape = [expected.shape()[0], expected.shape()[1]];
        let checkpoint = Checkpoint::open(&folder).unwrap();
        checkpoint.verify(NAME, &shape).unwrap();
        assert_eq!(floats(checkpoint.f32(NAME, &shape).unwrap()), expected.data(), "{}", folder.display());
        let hash = checkpoint.rows_parallel(NAME, shape, &|_, _| Ok(())).unwrap();
        assert_eq!(checkpoint.hash(NAME).unwrap(), Some(hash), "{}", folder.display());
        // It counts as one tensor.
        let tensors: Vec<StoredTensor<'_>> = checkpoint.tensors().collect();
        let stored = (NAME, &shape[..]);
        assert!(tensors.len() == 1 && (tensors[0].name, tensors[0].shape) == stored, "{tensors:?}");
        assert!(checkpoint.scale_problems().is_empty() && checkpoint.quantization().is_some());
        let problem = checkpoint.verify(NAME, &[shape[0], shape[1] + 1]).unwrap_err().to_string();
        assert!(problem.contains("expected shape"), "{problem}");
        formats += 1;
    }
    assert_eq!(formats, 15);
}

#[test]
fn rows_of_many_units_are_those_of_the_matrix() {
    let (rows, inputs) = (4200, 64);
    let words = |count: usize| codes(4 * count);
    let scale = |row: usize, group: usize| (1 + row % 7 + 2 * group) as f32 / 64.0;
    let gptq = json!({"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"});
    let awq = json!({"quant_method": "awq", "bits": 4, "group_size": 32});
    let by_group = floats((0..2).flat_map(|group| (0..rows).map(move |row| scale(row, group))));
    let nibble = |bytes: &[u8], word: usize, at: usize| bytes[4 * word + at / 2] >> (4 * (at % 2)) & 15;
    let (q, z) = (words(rows * inputs / 8), words(2 * rows / 8));
    // The place of an output's code in a word of AWQ.
    let place = |row: usize| row % 8 / 2 + 4 * (row % 2);
    for (quantization, shape, awq) in
        [(gptq, vec![inputs / 8, rows], false), (awq, vec![inputs, rows / 8], true)]
    {
        let tensor =
            |name, dtype, shape, bytes: &Vec<u8>| Tensor { name, dtype, shape, bytes: bytes.clone() };
        let dir = write(
            &quantization,
            &[
                tensor("qweight", "I32", shape, &q),
                tensor("qzeros", "I32", vec![2, rows / 8], &z),
                tensor("scales", "F32", vec![2, rows], &by_group),
            ],
        );
        let found = Checkpoint::open(dir.path()).unwrap().f32(NAME, &[rows, inputs]).unwrap();
        for row in (0..rows).step_by(97).chain([rows - 1]) {
            for input in [0, 1, 9, 31, 32, 63] {
                let group = input / 32;
                let (code, zero) = match awq {
                    true => (
                        nibble(&q, input * rows / 8 + row / 8, place(row)),
                        nibble(&z, group * rows / 8 + row / 8, place(row)),
                    ),
                    false => (
                        nibble(&q, input / 8 * rows + row, input % 8),
                        nibble(&z, group * rows / 8 + row / 8, row % 8),
                    ),
                };
                let expected = (f32::from(code) - f32::from(zero)) * scale(row, group);
                assert_eq!(found[row * inputs + input], expected, "awq {awq}: {row}, {input}");
            }
        }
    }
}

fn scaled(scales: Tensor, code: u8) -> tempfile::TempDir {
    let mut weight = codes(6 * 8);
    weight[17] = code;
    let weight = Tensor { name: "weight", dtype: "F8_E4M3", shape: vec![6, 8], bytes: weight };
    write(&json!({"quant_method": "fp8", "weight_block_size": [4, 8]}), &[weight, scales])
}

#[test]
fn wrong_scales_and_codes_are_named() {
    let scales = |name, shape, values: &[f32]| Tensor {
        name,
        dtype: "F32",
        shape,
        bytes: floats(values.iter().copied()),
    };
    let whole = || scales("weight_scale_inv", vec![2, 1], &[0.5, 2.0]);
    let checkpoint = |dir: &tempfile::TempDir| Checkpoint::open(dir.path()).unwrap();
    for (dir, part) in [
        (scaled(scales("weight_scale_inv", vec![3, 1], &[1.0; 3]), 1), "has shape [3, 1], expected [2, 1]"),
        (scaled(scales("other", vec![2, 1], &[1.0; 2]), 1), "its scales are missing"),
        (
            scaled(
                Tensor { name: "weight_scale_inv", dtype: "I32", shape: vec![2, 1], bytes: vec![0; 8] },
                1,
            ),
            "got I32",
        ),
        (
            scaled(scales("weight_scale_inv", vec![2, 1], &[1.0, f32::NAN]), 1),
            "value 1 of `model.layers.0.mlp.up_proj.weight_scale_inv` is NaN",
        ),
        (scaled(scales("weight_scale_inv", vec![2, 1], &[f32::INFINITY, 1.0]), 1), "is inf"),
    ] {
        let checkpoint = checkpoint(&dir);
        let error = checkpoint.f32(NAME, &[6, 8]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("tensor `{NAME}`: ")) && error.contains(part), "{error}");
        assert_eq!(checkpoint.scale_problems().iter().map(ToString::to_string).collect::<Vec<_>>(), [error]);
    }
    let error = checkpoint(&scaled(whole(), 0x7f)).f32(NAME, &[6, 8]).unwrap_err().to_string();
    assert!(error.contains("value 17 is NaN, in "), "{error}");
    let dir = scaled(whole(), 1);
    assert_eq!(checkpoint(&dir).f32(NAME, &[6, 8]).unwrap()[17], 2.0f32.powi(-9) * 0.5);

    let awq = |groups: usize, order: i32| {
        let bytes = |count: usize| codes(4 * count);
        let tensor = |name, shape: Vec<usize>| Tensor {
            name,
            dtype: "I32",
            bytes: bytes(shape.iter().product()),
            shape,
        };
        let order =
            Tensor { name: "g_idx", dtype: "I32", shape: vec![16], bytes: order.to_le_bytes().repeat(16) };
        let scale = scales("scales", vec![groups, 8], &vec![1.0; groups * 8]);
        let quantization = json!({"quant_method": "gptq", "bits": 4, "group_size": 8});
        write(&quantization, &[tensor("qweight", vec![2, 8]), tensor("qzeros", vec![2, 1]), scale, order])
    };
    for (dir, part) in [
        (awq(3, 0), "`model.layers.0.mlp.up_proj.scales` has shape [3, 8], expected [2, 8]"),
        (awq(2, 2), "value 0 of `model.layers.0.mlp.up_proj.g_idx` is 2, expected a group below 2"),
        (awq(2, -1), "is -1"),
    ] {
        let error = checkpoint(&dir).f32(NAME, &[8, 16]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn formats_that_are_not_supported_are_refused_before_anything_is_read() {
    let dir = write(&json!({"quant_method": "bitsandbytes"}), &[]);
    let error = Checkpoint::open(dir.path()).err().unwrap();
    let failure = specreel_record::Failure::from(error);
    assert!(
        failure.error.ends_with("config.json: quantization `bitsandbytes` is not supported"),
        "{failure:?}"
    );
    assert!(failure.hint.unwrap().contains("AWQ"));
    assert_eq!(Checkpoint::problems(dir.path()).len(), 1);
    // Before the weights of a model are downloaded.
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    assert!(ModelFiles::of_directory(dir.path()).check_quantization().is_err());
}

#[test]
fn a_table_has_the_type_of_its_scales() {
    let dir = fixture("awq");
    let checkpoint = Checkpoint::open(&dir).unwrap();
    let values = checkpoint.f32(NAME, &[24, 96]).unwrap();
    let (table, hash) = checkpoint.native(NAME, [24, 96]).unwrap();
    let Values::Half(kind, bits) = table else { panic!("expected 16-bit floats") };
    assert_eq!((Some(hash), checkpoint.value_bytes(NAME)), (checkpoint.hash(NAME).unwrap(), 2));
    assert!(bits.iter().zip(values).all(|(bits, value)| *bits == kind.narrow(value)));
}

#[test]
fn damaged_files_are_errors() {
    for folder in fs::read_dir(fixture("")).unwrap() {
        let (folder, dir) = (folder.unwrap().path(), tempfile::tempdir().unwrap());
        let [config, weights] =
            ["config.json", "model.safetensors"].map(|file| (file, fs::read(folder.join(file)).unwrap()));
        let header = 8 + u64::from_le_bytes(weights.1[..8].try_into().unwrap()) as usize;
        for (file, whole, end) in [(config.0, &config.1, config.1.len()), (weights.0, &weights.1, header)] {
            fs::write(dir.path().join(config.0), &config.1).unwrap();
            fs::write(dir.path().join(weights.0), &weights.1).unwrap();
            for (at, byte) in (0..end).step_by(11).zip([b'0', b'9', b'1'].into_iter().cycle()) {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                fs::write(dir.path().join(file), bytes).unwrap();
                let Ok(checkpoint) = Checkpoint::open(dir.path()) else { continue };
                let problems = checkpoint.scale_problems();
                let shapes: Vec<Vec<usize>> =
                    checkpoint.tensors().map(|tensor| tensor.shape.to_vec()).collect();
                let read = shapes.iter().map(|shape| checkpoint.f32(NAME, shape)).next();
                // What the report calls usable is read.
                let usable = problems.is_empty() && checkpoint.tensors().all(|tensor| tensor.name == NAME);
                assert!(
                    !usable || read.is_none_or(|read| read.is_ok()),
                    "{}: byte {at} of {file}",
                    folder.display()
                );
            }
        }
    }
}
