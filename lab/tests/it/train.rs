//! Training on a tiny random target: it learns, it can be broken off anywhere, and it repeats itself exactly.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use candle_core::{Tensor, Var};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Pass, Sequence, States, Workspace, argmax, rope::Rope},
    draft_head::{DraftHead, Recipe, VisualRows, layer_of},
    family::VideoLlm,
};
use specreel_scenes::{Scene, encode};
use specreel_tensor::{ComputeDevice, WeightType, Weights};
use specreel_train::{
    Account, BlockOptions, Blocks, Clips, Job, News, Options, Outcome, Rows, Sample, Teacher, TrainError,
    TrainedBlocks, TrainedEagle, train,
};

use crate::fixture;

fn target() -> PathBuf {
    fixture("gqa_tied")
}

fn options(recipe: Recipe) -> Options {
    Options {
        max_new_tokens: 12,
        epochs: 3,
        batch: 2,
        keep: 3,
        learning_rate: 2e-3,
        warm_up: 2,
        blocks: (recipe == Recipe::Dflash).then(small_blocks),
        ..Options::of(recipe)
    }
}

/// A DFlash head that is quickly trained.
fn small_blocks() -> BlockOptions {
    BlockOptions { layers: 2, feed_forward: Some(40), taps: 2, anchors: 6, ..BlockOptions::of(5) }
}

/// Train until `stop` says so; also returns the reports.
fn run(
    clips: &Clips,
    options: &Options,
    out: &Path,
    stop: &dyn Fn(usize) -> bool,
) -> (Result<Outcome, TrainError>, Vec<News>) {
    run_for(&target(), clips, options, out, stop)
}

fn run_for(
    target: &Path,
    clips: &Clips,
    options: &Options,
    out: &Path,
    stop: &dyn Fn(usize) -> bool,
) -> (Result<Outcome, TrainError>, Vec<News>) {
    let (told, mut news) = (Cell::new(0), Vec::new());
    let device = ComputeDevice::cpu(WeightType::Q8_0);
    let job = Job { target, device: &device, clips, options, out, save_every: 0.0 };
    let outcome = train(
        &job,
        &mut |one| {
            told.set(told.get() + 1);
            news.push(one);
        },
        &|| stop(told.get()),
    );
    (outcome, news)
}

fn whole(clips: &Clips, options: &Options, out: &Path) -> Account {
    match run(clips, options, out, &|_| false).0.unwrap() {
        Outcome::Finished(account) => account,
        Outcome::Stopped(_) => panic!("nobody stopped it"),
    }
}

/// The account of a head that learns of four scenes for this target; at the end, its loss is below this share of the first.
fn learned(target: &str, options: &Options, out: &Path, most: f64) -> Account {
    let (outcome, _) = run_for(&fixture(target), &Clips::Scenes { count: 4 }, options, out, &|_| false);
    let Ok(Outcome::Finished(account)) = outcome else { panic!("{target}: {outcome:?}") };
    let (first, last) = (account.curve[0], account.curve[account.curve.len() - 1]);
    assert!(last.loss < most * first.loss, "{target}: {account:?}");
    account
}

fn weights(out: &Path) -> Vec<u8> {
    std::fs::read(out.join("model.safetensors")).unwrap()
}

#[test]
fn what_is_learned_lowers_the_loss_and_loads() {
    let dir = tempfile::tempdir().unwrap();
    for recipe in [Recipe::Sparrow, Recipe::Msd, Recipe::Vispec, Recipe::Hivis] {
        let name = recipe.name();
        let out = dir.path().join(name);
        let clips = Clips::Scenes { count: 6 };
        let options = Options { epochs: 20, text_share: 0.5, ..options(recipe) };
        let account = whole(&clips, &options, &out);
        assert_eq!((account.steps, account.text_steps, account.skipped), (80, 40, 0));
        let (first, last) = (account.curve[0], account.curve[account.curve.len() - 1]);
        assert!(last.loss < 0.8 * first.loss, "{name}: {} {}", first.loss, last.loss);
        assert!(last.agreement > first.agreement, "{name}");
        let model = VideoLlm::load(&target(), WeightType::Q8_0, &mut |_, _| {}).unwrap();
        let layer = DraftHead::load(&out, model.decoder()).unwrap();
        assert_eq!((layer.name(), layer.config().recipe), (name, recipe));
        let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(files.len(), 3, "{files:?}");
        assert!(matches!(run(&clips, &options, &out, &|_| false).0, Err(TrainError::Finished { .. })));
    }
}

/// Targets without biases, with norms of queries and keys and several embeddings a visual token, or with text between the frames:
/// a head has the form of its target's layers.
#[test]
fn heads_of_other_layers_are_learned_and_load() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["qwen3_vl", "smolvlm"] {
        let model = VideoLlm::load(&fixture(name), WeightType::Q8_0, &mut |_, _| {}).unwrap();
        let text = model.decoder().config();
        for recipe in [Recipe::Sparrow, Recipe::Msd, Recipe::Vispec] {
            let out = dir.path().join(format!("{name}-{recipe:?}"));
            let options = Options { epochs: 20, text_share: 0.5, ..options(recipe) };
            let account = learned(name, &options, &out, 0.9);
            assert!(account.text_steps < account.steps, "{name}: {account:?}");
            let head = DraftHead::load(&out, model.decoder()).unwrap();
            let layer = head.decoder().config();
            assert_eq!(
                (layer.bias, layer.qk_norm, layer.interleaved, layer.deepstack),
                (text.bias, text.qk_norm, text.interleaved, 0)
            );
            let saved = specreel_checkpoint::Checkpoint::open(&out).unwrap();
            let names: Vec<&str> = saved.tensors().map(|tensor| tensor.name).collect();
            assert!(names.iter().all(|name| !name.contains("_proj.bias")), "{names:?}");
            assert_eq!(names.iter().any(|name| name.contains("q_norm")), text.qk_norm, "{names:?}");
        }
    }
}

/// A head that drafts blocks, with the parts of DFlash 2 and without, of targets with other positions and forms of layers.
#[test]
fn blocks_are_learned_and_load() {
    let dir = tempfile::tempdir().unwrap();
    for (name, second) in [("gqa_tied", true), ("qwen3_vl", false), ("qwen3_5", true)] {
        let out = dir.path().join(name);
        let sizes = match second {
            true => BlockOptions { convolution: 2, selector: 8, ..small_blocks() },
            false => small_blocks(),
        };
        let options = Options { epochs: 20, blocks: Some(sizes), ..options(Recipe::Dflash) };
        assert_eq!(learned(name, &options, &out, 0.8).text_steps, 0, "it has one stage");
        let device = ComputeDevice::cpu(WeightType::F32);
        let model = VideoLlm::load_on(&fixture(name), &device, &mut |_, _| {}).unwrap();
        let head = DraftHead::load(&out, model.decoder()).unwrap();
        let block = head.block().unwrap();
        assert_eq!((block.block_size, block.layers.len()), (5, 2));
        assert_eq!((block.convolution.is_some(), block.selector.is_some()), (second, second));
        assert_eq!(head.taps(), small_blocks().target_layers(model.decoder().config()));
        assert_eq!(block.mask_token_id, model.visual_token());
        blocks_are_those_of_drafting(&fixture(name), &out, &model, &head, &options);
    }
}

/// Give a head the weights that were saved.
fn set(vars: &BTreeMap<String, Var>, saved: &Checkpoint) {
    for (name, var) in vars {
        let values = saved.f32(name, var.dims()).unwrap();
        var.set(&Tensor::from_vec(values, var.shape(), var.device()).unwrap()).unwrap();
    }
}

/// The target's caption of a clip, as a head learns from it.
fn sample(target: &Path, model: &VideoLlm, options: &Options) -> Sample {
    let mut teacher = Teacher::load(target, &ComputeDevice::cpu(WeightType::F32)).unwrap();
    let clip = Clips::Scenes { count: 1 }.pixels(0, model.family(), model.processor()).unwrap();
    teacher.caption(&clip, options).unwrap().unwrap()
}

/// The blocks of a training step give what the loaded head drafts from, and its selector chooses alike in both.
fn blocks_are_those_of_drafting(
    target: &Path,
    out: &Path,
    model: &VideoLlm,
    head: &DraftHead,
    options: &Options,
) {
    let (decoder, saved) = (model.decoder(), Checkpoint::open(out).unwrap());
    let (text, config, own) = (decoder.config(), head.config(), head.block().unwrap());
    let trained = TrainedBlocks::new(&Checkpoint::open(target).unwrap(), text, config, 0).unwrap();
    set(trained.vars(), &saved);
    let sample = sample(target, model, options);
    let (rope, mut rng) = (Rope::new(&config.layer(text)), ChaCha8Rng::seed_from_u64(5));
    let sizes = options.blocks.as_ref().unwrap();
    let blocks = Blocks::new(&sample, sizes, own.mask_token_id, &rope, &mut rng).unwrap();
    let states = trained.forward(&blocks).unwrap();
    let width = text.hidden;
    let tapped = States::new(sample.context.clone(), head.taps().len() * width).unwrap();
    let context = head.reduce(&tapped).unwrap();
    let ahead = context.rows() - sample.ids.len();
    let (mut right, mut learned) = (0, 0);
    for (index, &anchor) in blocks.anchors.iter().enumerate() {
        let known = ahead + anchor;
        let mut sequence = Sequence::new(head.decoder().clone(), known + own.block_size);
        let at = sample.context_positions.slice(0..known);
        let going = &mut |_, _| ControlFlow::Continue(());
        let next = sample.positions.axes[0][anchor];
        assert!(sequence.inject_prompt(&context.narrow(0, known).unwrap(), &at, next, going).unwrap());
        let pass = sequence.feed_block(&own.ids(sample.ids[anchor]), &own.runs(known)).unwrap();
        let drafted = pass.states.to_vec().unwrap();
        let said = states.narrow(0, index * own.block_size, own.block_size).unwrap();
        let said = said.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let far = drafted.iter().zip(&said).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-3, "{}: block at {anchor}: {far}", target.display());
        // The places whose token the target has written, and the one after them.
        let places = own.most_drafts().min(sample.ids.len() - anchor);
        let rows = pass.states.narrow(1, places).unwrap();
        let selected = head.select(&mut sequence, &rows).unwrap();
        let logits = sequence.logits(&rows).unwrap().to_vec().unwrap();
        for (place, logits) in logits.chunks(text.vocab).enumerate() {
            let before = anchor + place;
            let state = States::new(sample.states[before * width..][..width].to_vec(), width).unwrap();
            let wanted =
                argmax(&decoder.logits(&state, &mut Workspace::default()).unwrap().to_vec().unwrap());
            let choice = selected.as_ref().map_or_else(
                || argmax(logits),
                |(selector, projected)| {
                    let mut order: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
                    order.sort_by(|a, b| b.1.total_cmp(&a.1));
                    order.truncate(selector.candidates());
                    let rank = projected.len() / places;
                    let projected = &projected[place * rank..][..rank];
                    let scores = selector.scores(sample.ids[before], projected, &order).unwrap();
                    order[argmax(&scores) as usize].0
                },
            );
            right += usize::from(choice == wanted);
            learned += 1;
        }
    }
    let agreement = trained.losses(&[blocks]).unwrap().agreement[1];
    assert!((right as f32 / learned as f32 - agreement).abs() < 1e-6, "{right} of {learned}: {agreement}");
}

/// A head that reads three layers of its target, and continues from its own outputs in training as in
/// drafting.
#[test]
fn eagle3_is_learned_and_loads() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["gqa_tied", "qwen3_vl", "qwen3_5"] {
        let out = dir.path().join(name);
        let options = Options { epochs: 20, recursions: 3, ..options(Recipe::Eagle3) };
        assert_eq!(learned(name, &options, &out, 0.8).text_steps, 0, "it has one stage");
        let model =
            VideoLlm::load_on(&fixture(name), &ComputeDevice::cpu(WeightType::F32), &mut |_, _| {}).unwrap();
        let head = DraftHead::load(&out, model.decoder()).unwrap();
        assert_eq!(head.taps(), options.target_layers(model.decoder().config()));
        assert_eq!(
            (head.taps().len(), head.vocabulary().unwrap().len()),
            (3, model.decoder().config().vocab)
        );
        passes_are_those_of_drafting(&fixture(name), &out, &model, &head, &options);
    }
}

/// The k-th pass of the training-time test gives what the k-th draft of a chain is read from, wherever the chain begins.
fn passes_are_those_of_drafting(
    target: &Path,
    out: &Path,
    model: &VideoLlm,
    head: &DraftHead,
    options: &Options,
) {
    let (decoder, saved) = (model.decoder(), Checkpoint::open(out).unwrap());
    let (text, config) = (decoder.config(), head.config());
    let trained = TrainedEagle::new(&Checkpoint::open(target).unwrap(), text, config, 0).unwrap();
    set(trained.vars(), &saved);
    let sample = sample(target, model, options);
    let rows = Rows::new(&sample, &Rope::new(&layer_of(text)), trained.embeddings()).unwrap();
    let passes = trained.forward(&rows, options.recursions).unwrap();

    let width = text.hidden;
    let prompt = States::new(sample.embeddings.clone(), width).unwrap();
    let caption = &sample.ids[sample.answer.start + 1..];
    let ids_at = |row: usize| &caption[row - prompt.rows()..][..1];
    let embeddings = States::cat(&[prompt.clone(), decoder.embed(caption).unwrap()]).unwrap();
    let context = States::new(sample.context.clone(), 3 * width).unwrap();
    let close = |own: &States, pass: usize, place: usize| {
        let own = own.to_vec().unwrap();
        let said = passes[pass].get(place).unwrap().to_vec1::<f32>().unwrap();
        let far = own.iter().zip(&said).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-3, "{}: pass {pass} at {place}: {far}", target.display());
    };
    for place in [0, 1, rows.learned - 1 - options.recursions] {
        // Rows that are known when the chain begins: the last is the `place`-th learned one.
        let known = embeddings.rows() - rows.learned + place;
        let before = head.reduce(&context.narrow(0, known).unwrap()).unwrap();
        let read = head.fuse_embedded(&embeddings.narrow(1, known).unwrap(), &before).unwrap();
        let mut sequence = Sequence::new(head.decoder().clone(), known + 8);
        let mut own = before.clone();
        let mut keep = |_: usize, pass: &Pass| {
            own = head.own_states(pass)?.narrow(pass.states.rows() - 1, 1)?;
            Ok(())
        };
        let at = sample.context_positions.slice(0..known);
        let next = at.axes[0][known - 1] + 1;
        let going = &mut |_, _| ControlFlow::Continue(());
        assert!(sequence.prefill_tapped(&read, &at, next, &head.own_taps(), &mut keep, going).unwrap());
        close(&own, 0, place);
        for pass in 1..=options.recursions {
            let row = head.fuse(ids_at(known + pass), &own).unwrap();
            own = head.own_states(&sequence.feed_input(&row, &head.own_taps()).unwrap()).unwrap();
            close(&own, pass, place);
        }
    }
}

#[test]
fn broken_off_anywhere_it_ends_the_same() {
    for recipe in [Recipe::Sparrow, Recipe::Dflash] {
        ends_the_same(recipe);
    }
}

fn ends_the_same(recipe: Recipe) {
    let dir = tempfile::tempdir().unwrap();
    let clips = Clips::Scenes { count: 7 };
    let options = options(recipe);
    let once = dir.path().join("once");
    let account = whole(&clips, &options, &once);
    let again = dir.path().join("again");
    whole(&clips, &options, &again);
    assert!(weights(&once) == weights(&again), "a seed gives the same weights each time");

    let pieces = dir.path().join("pieces");
    let mut stops = 0;
    let end = loop {
        // Each attempt gets a little further, and its reports are the same.
        match run(&clips, &options, &pieces, &|told| told > 5 + stops).0.unwrap() {
            Outcome::Stopped(_) => stops += 1,
            Outcome::Finished(account) => break account,
        }
    };
    assert!(stops > 3, "{stops}");
    assert!(weights(&once) == weights(&pieces), "and however often it is broken off");
    assert_eq!((end.steps, end.tokens), (account.steps, account.tokens));
    // A stop right before the end leaves nothing for the last point.
    let points = |account: &Account| account.curve.iter().map(|point| point.step).collect::<Vec<_>>();
    assert!(points(&account).starts_with(&points(&end)) && !end.curve.is_empty());
    let other = Options { seed: 1, ..options };
    let elsewhere = dir.path().join("other");
    whole(&clips, &other, &elsewhere);
    assert!(weights(&once) != weights(&elsewhere));
}

#[test]
fn other_settings_and_strange_folders_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let clips = Clips::Scenes { count: 4 };
    let options = options(Recipe::Sparrow);
    assert!(matches!(run(&clips, &options, &out, &|told| told > 4).0, Ok(Outcome::Stopped(_))));
    let before = weights(&out);
    let other = Options { visual_rows: VisualRows::Embeddings, ..options.clone() };
    let error = run(&clips, &other, &out, &|_| false).0.unwrap_err();
    assert!(error.to_string().ends_with("has visual-rows \"middle\", not \"embeddings\""), "{error}");
    let error = run(&Clips::Scenes { count: 5 }, &options, &out, &|_| false).0.unwrap_err();
    assert!(error.to_string().ends_with("has data scenes:4, not scenes:5"), "{error}");
    assert!(weights(&out) == before, "nothing is lost");

    std::fs::write(out.join("training.safetensors"), b"cut").unwrap();
    assert!(matches!(run(&clips, &options, &out, &|_| false).0, Err(TrainError::Damaged { .. })));
    let full = dir.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("photo.jpg"), b"x").unwrap();
    assert!(matches!(run(&clips, &options, &full, &|_| false).0, Err(TrainError::Occupied { .. })));
    assert_eq!(std::fs::read_dir(&full).unwrap().count(), 1);
    std::fs::write(dir.path().join("file"), b"x").unwrap();
    let under = dir.path().join("file/out");
    assert!(matches!(run(&clips, &options, &under, &|_| false).0, Err(TrainError::Write { .. })));
}

#[test]
fn a_broken_clip_is_named_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("clips");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("broken.mp4"), b"this is no video").unwrap();
    let options = options(Recipe::Msd);
    let alone = run(&Clips::folder(&folder, 0).unwrap(), &options, &dir.path().join("alone"), &|_| false).0;
    assert!(matches!(alone, Err(TrainError::AllBroken { count: 1, .. })), "{alone:?}");
    for seed in 0..2 {
        let path = folder.join(format!("{seed}.mp4"));
        encode::mp4(&Scene::from_seed(seed), &path, 112, 112).unwrap();
    }
    let (outcome, news) =
        run(&Clips::folder(&folder, 0).unwrap(), &options, &dir.path().join("out"), &|_| false);
    let Ok(Outcome::Finished(account)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(account.skipped, 1);
    let named = |one: &News| matches!(one, News::Skipped { clip, .. } if clip.ends_with("broken.mp4"));
    assert_eq!(news.iter().filter(|one| named(one)).count(), 1);
}

#[test]
fn a_first_save_that_fails_leaves_room_for_the_next_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let (clips, options) = (Clips::Scenes { count: 2 }, options(Recipe::Sparrow));
    // As with a full disk: the temporary file cannot be written.
    let blocked = dir.path().join(".half-training.safetensors");
    std::fs::create_dir(&blocked).unwrap();
    let error = run(&clips, &options, dir.path(), &|_| false).0.err().unwrap();
    assert!(error.to_string().contains("training.safetensors"), "{error}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [".half-training.safetensors"]);
    std::fs::remove_dir(&blocked).unwrap();
    assert!(whole(&clips, &options, dir.path()).finished);
}
