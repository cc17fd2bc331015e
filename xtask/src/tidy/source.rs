//! Checks one source file.

use super::{FILE_LINES, FUNCTION_LINES};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "common", "helper", "helpers"];

/// What only the I/O module may name.
const IO_WORDS: [&str; 4] = ["std::fs", "tokio::fs", "object_store::", "std::net::"];

pub(super) fn check(path: &str, text: &str) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    let mut found = |line: usize, what: String| findings.push(format!("{path}:{line}: {what}"));
    let parsed = syn::parse_file(text).map_err(|error| format!("cannot parse {path}: {error}"))?;
    let is_test = is_test(path);
    if !text.starts_with("//!") && !text.starts_with("#!") {
        found(1, "a file opens with a `//!` head: what it is, why it is here, what it never does".into());
    }
    let code = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    if code > FILE_LINES {
        found(1, format!("{code} lines of code; at most {FILE_LINES}"));
    }
    let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    if EMPTY_NAMES.contains(&stem) {
        found(1, format!("`{stem}` says nothing: name what is inside"));
    }
    if is_crate_root(path) && !text.contains("#![forbid(unsafe_code)]") {
        found(1, "a crate root forbids unsafe code".into());
    }
    if !is_test && below_the_roof(path) && !path.starts_with("crates/runtime/src/io") {
        for (number, line) in text.lines().enumerate() {
            let line = line.split("//").next().unwrap_or(line);
            if let Some(word) = IO_WORDS.iter().find(|word| line.contains(**word)) {
                found(number + 1, format!("`{word}` outside the I/O module: injected faults would not reach it"));
            }
        }
    }
    let mut items = Items { findings: Vec::new(), path, documented: !is_test && is_library(path), in_test: false };
    items.visit_file(&parsed);
    findings.extend(items.findings);
    Ok(findings)
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.contains("/benches/")
        || path.contains("/src/testing")
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

fn is_library(path: &str) -> bool {
    ["checkpoint", "runtime", "timely", "flott"].iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

fn below_the_roof(path: &str) -> bool {
    ["checkpoint", "runtime", "timely", "flott"].iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

/// Walks the items of a file.
struct Items<'a> {
    findings: Vec<String>,
    path: &'a str,
    documented: bool,
    in_test: bool,
}

impl Items<'_> {
    fn length(&mut self, name: &syn::Ident, span: proc_macro2::Span) {
        let lines = span.end().line - span.start().line + 1;
        if lines > FUNCTION_LINES && !self.in_test {
            self.findings.push(format!(
                "{}:{}: `{name}` has {lines} lines; at most {FUNCTION_LINES}",
                self.path,
                span.start().line
            ));
        }
    }

    fn docs(&mut self, visibility: &syn::Visibility, attributes: &[syn::Attribute], name: &syn::Ident) {
        let public = matches!(visibility, syn::Visibility::Public(_));
        let documented = attributes.iter().any(|attribute| attribute.path().is_ident("doc"));
        if self.documented && !self.in_test && public && !documented {
            self.findings.push(format!("{}:{}: public `{name}` has no docs", self.path, name.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.length(&item.sig.ident, item.span());
        self.docs(&item.vis, &item.attrs, &item.sig.ident);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.length(&item.sig.ident, item.span());
        self.docs(&item.vis, &item.attrs, &item.sig.ident);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.docs(&item.vis, &item.attrs, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.docs(&item.vis, &item.attrs, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.docs(&item.vis, &item.attrs, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let test = item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        let before = self.in_test;
        self.in_test |= test;
        visit::visit_item_mod(self, item);
        self.in_test = before;
    }
}
