//! The drafts of a decoder under each shape, compared with its predictions branch by branch.

use std::collections::BTreeMap;

use specreel_model::decoder::{Sequence, States, Taps};
use specreel_record::Verdict;
use specreel_speculate::{
    Drafter, Method, Shape,
    draft::{DraftRequest, Form, ModelDrafter, Proposal, Proposer},
    sampling::{RowFacts, top_log_probabilities},
    tree::{SPECVLM, Template, Tree},
};
use specreel_tensor::WeightType;

use crate::lossless::{GREEDY, WHOLE, context, support::Bench};

fn order<'a>(form: Form<'a>, depth: usize, ends: &'a [u32], vocab: usize) -> DraftRequest<'a> {
    DraftRequest {
        unsure: specreel_speculate::draft::Unsure::Never,
        form,
        depth,
        room: depth,
        ends,
        special: &[],
        vocab,
        sampler: None,
        distributions: false,
        others: false,
        position: 0,
        grammar: None,
        history: None,
        forced: &[],
    }
}

/// Siblings are taken from one distribution, which is kept once; each node has the distribution of its
/// parent's row.
#[test]
fn siblings_share_the_distribution_that_they_were_taken_from() {
    let mut reader = Reader::new();
    let vocab = reader.vocab;
    for form in [Form::Dynamic { nodes: 11, width: 3 }, Form::TwoBranch, Form::Chain] {
        let asked = DraftRequest { distributions: true, ..order(form, 4, &[], vocab) };
        let proposal = reader.drafter().draft(&asked, None).unwrap();
        let nodes = proposal.tree.nodes();
        assert_eq!(proposal.distributions.len(), nodes.len());
        for (node, q) in nodes.iter().zip(&proposal.distributions) {
            assert_eq!(q.len(), vocab);
            assert!((q[node.id as usize] - node.probability.unwrap()).abs() < 1e-5);
            for (other, of) in nodes.iter().zip(&proposal.distributions) {
                assert_eq!(std::sync::Arc::ptr_eq(q, of), node.parent == other.parent);
            }
        }
    }
}

/// The ids on the way to a node, itself included.
fn way(tree: &Tree, node: usize) -> Vec<u32> {
    tree.path(node).iter().map(|&node| tree.nodes()[node].id).collect()
}

/// A draft model that has read a prompt.
struct Reader {
    sequence: Sequence,
    base: usize,
    root: u32,
    vocab: usize,
}

impl Reader {
    fn new() -> Self {
        let mut bench = Bench::new("nested_bf16", "gqa_tied", WeightType::Q8_0, 0);
        let (sequence, root) = bench.reader();
        Self { base: sequence.len(), sequence, root, vocab: bench.vocabulary() }
    }

    fn drafter(&mut self) -> ModelDrafter<'_> {
        self.sequence.truncate(self.base);
        ModelDrafter::new(&mut self.sequence, self.root, false)
    }

    fn propose(&mut self, form: Form<'_>, depth: usize, ends: &[u32]) -> Proposal {
        let vocab = self.vocab;
        self.drafter().draft(&order(form, depth, ends, vocab), None).unwrap()
    }

    /// The tokens after the root and these ids with their probabilities, most likely first, drafted as a chain.
    fn after(&mut self, ids: &[u32]) -> Vec<(u32, f32)> {
        self.sequence.truncate(self.base);
        let rows: Vec<u32> = std::iter::once(self.root).chain(ids.iter().copied()).collect();
        let pass = self.sequence.feed(&rows, &Taps::default()).unwrap();
        let last = pass.states.narrow(rows.len() - 1, 1).unwrap();
        let logits = self.sequence.logits(&last).unwrap().to_vec().unwrap();
        let row = &logits[..self.vocab];
        let best = top_log_probabilities(row, &RowFacts::of(row), 16);
        best.into_iter().map(|(id, log)| (id, log.exp())).collect()
    }
}

#[test]
fn a_static_tree_has_the_tokens_of_its_ranks() {
    let mut reader = Reader::new();
    let mixed = ["2", "0", "01", "20", "00", "200", "1", "010"];
    for names in [&SPECVLM[..], &mixed] {
        let template = Template::read(names).unwrap();
        let proposal = reader.propose(Form::Static(&template), 16, &[]);
        let tree = &proposal.tree;
        assert_eq!(tree.len(), names.len());
        let drafted: BTreeMap<Vec<u32>, Option<f32>> =
            (0..tree.len()).map(|node| (way(tree, node), tree.nodes()[node].probability)).collect();
        assert_eq!(drafted.len(), names.len(), "no branch is drafted twice");
        for (place, name) in names.iter().enumerate() {
            let (mut ids, mut probability) = (Vec::new(), 0.0);
            for rank in name.bytes().map(|digit| usize::from(digit - b'0')) {
                let (id, p) = reader.after(&ids)[rank];
                ids.push(id);
                probability = p;
            }
            assert_eq!(drafted.get(&ids), Some(&Some(probability)), "{name}");
            // SpecVLM's names come level by level, and so do the nodes.
            assert!(names != SPECVLM || way(tree, place) == ids, "{name}");
        }
    }
    let template = Template::read(&SPECVLM).unwrap();
    for (depth, count) in [(1, 4), (2, 12), (3, 20), (4, 23), (5, 25)] {
        assert_eq!(reader.propose(Form::Static(&template), depth, &[]).tree.len(), count);
    }
}

#[test]
fn no_branch_goes_on_after_an_end_token() {
    let mut reader = Reader::new();
    let template = Template::read(&SPECVLM).unwrap();
    let ends = [reader.after(&[])[0].0];
    for form in [Form::Chain, Form::Static(&template), Form::TwoBranch, Form::Dynamic { nodes: 20, width: 4 }]
    {
        let tree = reader.propose(form, 6, &ends).tree;
        assert!(tree.nodes().iter().any(|node| node.id == ends[0]));
        let parents = tree.nodes().iter().filter_map(|node| node.parent);
        assert!(parents.into_iter().all(|parent| tree.nodes()[parent].id != ends[0]));
    }
    assert_eq!(reader.propose(Form::Chain, 6, &ends).tree.len(), 1);
    assert!(reader.propose(Form::TwoBranch, 0, &[]).tree.is_empty());
}

#[test]
fn two_branches_are_two_greedy_chains() {
    let mut reader = Reader::new();
    for length in [1, 2, 7] {
        let tree = reader.propose(Form::TwoBranch, length, &[]).tree;
        assert_eq!(tree.len(), 2 * length);
        let parents: Vec<Option<usize>> = tree.nodes().iter().map(|node| node.parent).collect();
        assert!(parents.iter().enumerate().all(|(node, parent)| *parent == node.checked_sub(2)));
        assert_eq!(tree.leaves(), [2 * length - 2, 2 * length - 1]);
        for (branch, leaf) in tree.leaves().into_iter().enumerate() {
            let ids = way(&tree, leaf);
            assert_eq!(ids[0], reader.after(&[])[branch].0);
            for i in 1..ids.len() {
                assert_eq!(ids[i], reader.after(&ids[..i])[0].0);
            }
        }
    }
    let chain = reader.propose(Form::Chain, 7, &[]).tree;
    let first = reader.propose(Form::TwoBranch, 7, &[]).tree;
    assert!(chain.is_chain() && way(&chain, 6) == way(&first, 12));
}

#[test]
fn a_dynamic_tree_keeps_the_likeliest_of_what_was_expanded() {
    let mut reader = Reader::new();
    for (total, depth, width) in [(2, 1, 1), (9, 1, 3), (8, 3, 2), (12, 4, 3), (25, 5, 8), (64, 3, 16)] {
        let all = reader.propose(Form::Dynamic { nodes: usize::MAX, width }, depth, &[]).tree;
        assert_eq!(all.len(), width + (depth - 1) * width * width);
        let kept = reader.propose(Form::Dynamic { nodes: total - 1, width }, depth, &[]).tree;
        assert_eq!(kept.len(), (total - 1).min(all.len()));

        // How likely the whole branch down to a node is.
        let likelihood = |tree: &Tree, node: usize| -> f32 {
            tree.path(node).iter().map(|&node| tree.nodes()[node].probability.unwrap().ln()).sum()
        };
        let of = |tree: &Tree| -> BTreeMap<Vec<u32>, f32> {
            (0..tree.len()).map(|node| (way(tree, node), likelihood(tree, node))).collect()
        };
        let (candidates, chosen) = (of(&all), of(&kept));
        assert_eq!((candidates.len(), chosen.len()), (all.len(), kept.len()));
        // What is kept is connected: cut off from its parent a node would be another branch than the one expanded.
        for (ids, likelihood) in &chosen {
            assert_eq!(candidates.get(ids), Some(likelihood));
            assert!(ids.len() == 1 || chosen.contains_key(&ids[..ids.len() - 1]));
        }
        let least = chosen.values().copied().fold(f32::INFINITY, f32::min);
        let dropped = candidates.iter().filter(|(ids, _)| !chosen.contains_key(*ids));
        assert!(dropped.into_iter().all(|(_, likelihood)| *likelihood <= least + 1e-4));

        // On each level the `width` most likely nodes were expanded to their `width` best tokens.
        for level in 1..=depth {
            let mut here: Vec<(&Vec<u32>, &f32)> =
                candidates.iter().filter(|(ids, _)| ids.len() == level).collect();
            here.sort_by(|a, b| b.1.total_cmp(a.1));
            if level < depth && here.len() > width {
                assert!(here[width - 1].1 - here[width].1 > 1e-5, "no tie decides here");
            }
            for (rank, (ids, _)) in here.into_iter().enumerate() {
                let mut children: Vec<u32> = candidates
                    .keys()
                    .filter(|other| other.len() == level + 1 && other.starts_with(ids))
                    .map(|other| other[level])
                    .collect();
                let mut best: Vec<u32> = reader.after(ids)[..width].iter().map(|(id, _)| *id).collect();
                if level == depth || rank >= width {
                    best.clear();
                }
                children.sort_unstable();
                best.sort_unstable();
                assert_eq!(children, best, "{ids:?}");
            }
        }
    }
}

/// After part of a tree was accepted, the drafter continues as if it had read that text token by token.
#[test]
fn accepted_paths_leave_the_drafters_cache_as_reading_would() {
    let mut reader = Reader::new();
    let states = States::new(vec![0.0], 1).unwrap(); // not used by this drafter
    let target = reader.sequence.first_layers(1); // used only where rows are taken over from it
    let template = Template::read(&SPECVLM).unwrap();
    let forms = [
        Form::Chain,
        Form::Static(&template),
        Form::TwoBranch,
        Form::Dynamic { nodes: 20, width: 4 },
        Form::Dynamic { nodes: 3, width: 4 },
    ];
    let vocab = reader.vocab;
    for form in forms {
        let tree = reader.propose(form.clone(), 5, &[]).tree;
        let mut paths: Vec<Vec<usize>> = (0..tree.len()).map(|node| tree.path(node)).collect();
        paths.push(vec![]);
        for path in paths {
            let own = 17;
            let mut drafter = reader.drafter();
            let base = 0;
            let proposal = drafter.draft(&order(form.clone(), 5, &[], vocab), None).unwrap();
            drafter.commit(&proposal, &path, own, &target, base, &states).unwrap();
            let gone_on = drafter.draft(&order(Form::Static(&template), 5, &[], vocab), None).unwrap();

            let ids: Vec<u32> = path.iter().map(|&node| proposal.tree.nodes()[node].id).collect();
            reader.after(&ids);
            let mut fresh = ModelDrafter::new(&mut reader.sequence, own, false);
            let read = fresh.draft(&order(Form::Static(&template), 5, &[], vocab), None).unwrap();
            assert_eq!(gone_on.tree, read.tree, "{form:?} {path:?}");
        }
    }
}

/// What the target drafts for itself with nothing taken away is never corrected, in trees too.
#[test]
fn in_trees_a_drafter_that_sees_everything_is_always_right() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::Q8_0, 2);
    let naive = Method::preset("naive").unwrap();
    for shape in [
        Shape::StaticTree { nodes: vec![], confidence: 0.0 },
        Shape::TwoBranch { length: 5, confidence: 0.0 },
    ] {
        for context in WHOLE.map(context) {
            let shape = shape.clone();
            let method = Method { drafter: Drafter::SELF, context, shape, ..naive.clone() };
            method.validate().unwrap();
            let written = bench.write(&method, GREEDY, 36);
            let tokens = written.steps.iter().flat_map(|step| &step.tokens);
            assert!(tokens.into_iter().all(|token| token.verdict != Verdict::Corrected), "{method:?}");
            assert!(written.accepted >= 25, "{method:?}: {}", written.accepted);
        }
    }
}

/// After each step a draft head drafts the same as one that was just prefilled with the text and the target's states: none of
/// its own outputs remain.
#[test]
fn true_states_come_back_after_every_verdict() {
    let mut bench = Bench::new("gqa_tied", "nested_bf16", WeightType::Q8_0, 1);
    let template = Template::read(&SPECVLM).unwrap();
    let forms =
        [Form::Chain, Form::Static(&template), Form::TwoBranch, Form::Dynamic { nodes: 24, width: 8 }];
    let vocab = bench.vocabulary();
    let own = 17;
    for form in forms {
        let order = |form| order(form, 5, &[], vocab);
        let tree =
            bench.with_layer(|parts, _| parts.drafter().draft(&order(form.clone()), None).unwrap().tree);
        let mut paths: Vec<Vec<usize>> = (0..tree.len()).map(|node| tree.path(node)).collect();
        paths.push(vec![]);
        for path in paths {
            let (gone_on, read) = bench.with_layer(|parts, target| {
                let root = parts.root;
                let mut drafter = parts.drafter();
                let proposal = drafter.draft(&order(form.clone()), None).unwrap();
                let nodes = proposal.tree.nodes();
                let rows: Vec<u32> = [root].into_iter().chain(nodes.iter().map(|node| node.id)).collect();
                let (base, depths) = (target.len(), proposal.tree.depths());
                let taps = Taps::default();
                let pass = target.feed_tree(&rows, base, &depths, proposal.tree.rows(), &taps).unwrap();
                let kept: Vec<usize> = [0].into_iter().chain(path.iter().map(|node| node + 1)).collect();
                target.keep(base, &kept);
                drafter.commit(&proposal, &path, own, target, base, &pass.states).unwrap();
                let gone_on = drafter.draft(&order(Form::Static(&template)), None).unwrap();
                drop(drafter);

                // Another one reads the same text token by token, each with the state before it.
                let ids: Vec<u32> = path.iter().map(|&node| nodes[node].id).chain([own]).collect();
                let states: Vec<States> =
                    kept.iter().map(|&row| pass.states.narrow(row, 1).unwrap()).collect();
                let mut fresh = parts.drafter();
                for (id, state) in ids.into_iter().zip(states) {
                    fresh.draft(&order(Form::Chain), None).unwrap();
                    fresh.commit(&Proposal::default(), &[], id, target, base, &state).unwrap();
                }
                let read = fresh.draft(&order(Form::Static(&template)), None).unwrap();
                target.truncate(base);
                (gone_on, read)
            });
            assert_eq!(gone_on.tree, read.tree, "{form:?} {path:?}");
        }
    }
}
