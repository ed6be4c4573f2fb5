//! Token trees: the drafts of a step after its root. A chain is a tree in which every node has one child.
//!
//! The root (the last emitted token) is row 0 of the verify pass and not a node; node `i` is row `i + 1`. A node's parent comes
//! before it.

/// One drafted token.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: u32,
    /// The node before it; `None` = the root.
    pub parent: Option<usize>,
    /// Distance from the root, at least 1.
    pub depth: usize,
    /// Probability under the drafter, where it has one.
    pub probability: Option<f32>,
}

/// The drafted tokens of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// A tree of one branch.
    pub fn chain(ids: impl IntoIterator<Item = u32>) -> Self {
        let mut tree = Self::default();
        for id in ids {
            tree.push(tree.len().checked_sub(1), id, None);
        }
        tree
    }

    /// Add a child; returns its number.
    pub fn push(&mut self, parent: Option<usize>, id: u32, probability: Option<f32>) -> usize {
        let depth = parent.map_or(1, |parent| self.nodes[parent].depth + 1);
        self.nodes.push(Node { id, parent, depth, probability });
        self.nodes.len() - 1
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if nothing was drafted.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// True if no node has a sibling.
    pub fn is_chain(&self) -> bool {
        self.nodes.iter().enumerate().all(|(i, node)| node.parent == i.checked_sub(1))
    }

    /// The parent of each node for a report, none = the root; empty for a chain.
    pub fn parents(&self) -> Vec<Option<usize>> {
        if self.is_chain() { Vec::new() } else { self.nodes.iter().map(|node| node.parent).collect() }
    }

    /// The nodes from the first after the root down to `node`, itself included.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(Some(node), |&n| self.nodes[n].parent).collect();
        path.reverse();
        path
    }

    /// The ids from the first after the root down to `node`, its own included.
    pub fn ids(&self, node: usize) -> Vec<u32> {
        self.path(node).into_iter().map(|node| self.nodes[node].id).collect()
    }

    /// Nodes without children, in order.
    pub fn leaves(&self) -> Vec<usize> {
        let mut leaf = vec![true; self.nodes.len()];
        for parent in self.nodes.iter().filter_map(|node| node.parent) {
            leaf[parent] = false;
        }
        (0..self.nodes.len()).filter(|&node| leaf[node]).collect()
    }

    /// For the rows of a verify pass (root first), the rows that each sees: the path to it.
    pub fn rows(&self) -> Vec<Vec<usize>> {
        let mut rows = vec![vec![0]];
        for (i, node) in self.nodes.iter().enumerate() {
            let mut path = rows[node.parent.map_or(0, |parent| parent + 1)].clone();
            path.push(i + 1);
            rows.push(path);
        }
        rows
    }

    /// Depth of every row of a verify pass, the root's first.
    pub fn depths(&self) -> Vec<usize> {
        std::iter::once(0).chain(self.nodes.iter().map(|node| node.depth)).collect()
    }

    /// The tree of the nodes in `kept` (ascending, every node's parent among them).
    pub fn select(&self, kept: &[usize]) -> Tree {
        let mut place = vec![None; self.nodes.len()];
        let mut tree = Tree::default();
        for &node in kept {
            let Node { id, parent, probability, .. } = self.nodes[node];
            place[node] = Some(tree.push(parent.and_then(|parent| place[parent]), id, probability));
        }
        tree
    }
}

/// SpecVLM's 25 nodes, each named by the ranks of the choices on the way to it.
pub const SPECVLM: [&str; 25] = [
    "0", "1", "2", "3", "00", "01", "02", "10", "11", "20", "21", "30", "000", "001", "002", "010", "011",
    "020", "021", "100", "0000", "0001", "0002", "00000", "00001",
];

/// Most nodes of a template.
const MOST: usize = 63;

/// The form of a static tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    nodes: Vec<(Option<usize>, usize)>,
}

impl Template {
    /// Read names such as "0", "1", "00": digits are the ranks of the choices on the way; without names, [`SPECVLM`]'s. The error
    /// is the invalid name: not digits, a duplicate, or listed before its parent.
    pub fn read<S: AsRef<str>>(names: &[S]) -> Result<Template, String> {
        if names.is_empty() {
            return Self::read(&SPECVLM);
        }
        if names.len() > MOST {
            return Err(format!("{} nodes", names.len()));
        }
        let mut nodes = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let name = name.as_ref();
            let place = |wanted: &str| names[..i].iter().position(|n| n.as_ref() == wanted);
            let digits = !name.is_empty() && name.len() <= 16 && name.bytes().all(|b| b.is_ascii_digit());
            let parent = digits.then(|| match name.len() {
                1 => Some(None),
                n => place(&name[..n - 1]).map(Some),
            });
            match parent.flatten() {
                Some(parent) if place(name).is_none() => {
                    nodes.push((parent, usize::from(name.as_bytes()[name.len() - 1] - b'0')));
                }
                _ => return Err(format!("{name:?}")),
            }
        }
        Ok(Template { nodes })
    }

    /// For each node its parent (`None` = the root) and the rank of its choice there.
    pub fn nodes(&self) -> &[(Option<usize>, usize)] {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tree {
        // root - a - c
        //      \ b - d - e
        let mut tree = Tree::default();
        let a = tree.push(None, 10, None);
        let b = tree.push(None, 11, Some(0.25));
        tree.push(Some(a), 12, None);
        let d = tree.push(Some(b), 13, None);
        tree.push(Some(d), 14, None);
        tree
    }

    #[test]
    fn paths_rows_and_leaves() {
        let tree = sample();
        assert_eq!(tree.path(4), [1, 3, 4]);
        assert_eq!(tree.leaves(), [2, 4]);
        assert_eq!(tree.depths(), [0, 1, 1, 2, 2, 3]);
        assert_eq!(
            tree.rows(),
            [vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 3], vec![0, 2, 4], vec![0, 2, 4, 5]]
        );
        assert!(!tree.is_chain() && tree.select(&[1, 3, 4]).is_chain());
        assert_eq!(tree.select(&[0, 1, 3]).rows(), [vec![0], vec![0, 1], vec![0, 2], vec![0, 2, 3]]);
        assert!(Tree::default().is_chain() && Tree::default().leaves().is_empty());
        assert_eq!(Tree::chain([7, 8, 9]).path(2), [0, 1, 2]);
    }

    #[test]
    fn specvlm_has_fifteen_leaves_and_depth_five() {
        let template = Template::read::<&str>(&[]).unwrap();
        let mut tree = Tree::default();
        for &(parent, rank) in template.nodes() {
            tree.push(parent, rank as u32, None);
        }
        assert_eq!((tree.len(), tree.leaves().len()), (25, 15));
        assert_eq!(tree.depths().into_iter().max(), Some(5));
        assert!(tree.rows().iter().all(|row| row.is_sorted()));
    }

    #[test]
    fn invalid_names_are_reported() {
        for (names, bad) in [
            (&["0", "0"][..], "\"0\""),
            (&["00", "0"], "\"00\""),
            (&["0", "x"], "\"x\""),
            (&["0", ""], "\"\""),
            (&["1", "01"], "\"01\""),
        ] {
            assert_eq!(Template::read(names).unwrap_err(), bad);
        }
        assert_eq!(Template::read(&["0"; 64]).unwrap_err(), "64 nodes");
    }
}
