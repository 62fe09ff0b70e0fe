//! What a server has, ready to be served: found by name, and listed in pages that were written once.

use crate::{
    call::Call,
    completion::{CompleteParams, Reference},
    template::Template,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use bowline_proto::{
    jsonrpc::{Raw, Reply},
    modern::tasks::TaskSupport,
};
use bowline_server::BoxFuture;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

/// A handler, boxed once: the call and the JSON text of its arguments in, the reply out.
pub(crate) type Run<S> = Box<dyn Fn(Call<S>, &str) -> BoxFuture<'static, Reply> + Send + Sync>;

/// The variables of a template, and their texts.
pub(crate) type Variables<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// The handler of a template: the call, the URI and the variables in it.
pub(crate) type RunTemplate<S> =
    Box<dyn Fn(Call<S>, &str, Variables<'_>) -> BoxFuture<'static, Reply> + Send + Sync>;

/// The handler of a completion.
pub(crate) type RunCompletion<S> =
    Box<dyn Fn(Call<S>, CompleteParams) -> BoxFuture<'static, Reply> + Send + Sync>;

/// One thing with its name, its entry in the list, and its handler.
pub(crate) struct Entry<R> {
    pub(crate) name: String,
    pub(crate) listed: Raw,
    pub(crate) run: R,
}

pub(crate) struct ToolEntry<S> {
    pub(crate) entry: Entry<Run<S>>,
    pub(crate) tasks: TaskSupport,
    /// Whether its calls may run a second time where the first run was lost.
    pub(crate) repeatable: bool,
}

pub(crate) struct TemplateEntry<S> {
    pub(crate) template: Template,
    pub(crate) entry: Entry<RunTemplate<S>>,
}

pub(crate) struct PromptEntry<S> {
    pub(crate) arguments: Vec<String>,
    pub(crate) entry: Entry<Run<S>>,
}

/// What a completion completes: an argument of something.
pub(crate) type CompletionKey = (Reference, String);

/// Everything that a server has, in the order in which it was given.
pub(crate) struct Parts<S> {
    pub(crate) tools: Vec<Arc<ToolEntry<S>>>,
    pub(crate) resources: Vec<Arc<Entry<Run<S>>>>,
    pub(crate) templates: Vec<Arc<TemplateEntry<S>>>,
    pub(crate) prompts: Vec<Arc<PromptEntry<S>>>,
    pub(crate) completions: BTreeMap<CompletionKey, Arc<RunCompletion<S>>>,
}

impl<S> Parts<S> {
    pub(crate) const fn empty() -> Self {
        Self {
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            completions: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
            && self.resources.is_empty()
            && self.templates.is_empty()
            && self.prompts.is_empty()
            && self.completions.is_empty()
    }
}

impl<S> Clone for Parts<S> {
    fn clone(&self) -> Self {
        Self {
            tools: self.tools.clone(),
            resources: self.resources.clone(),
            templates: self.templates.clone(),
            prompts: self.prompts.clone(),
            completions: self.completions.clone(),
        }
    }
}

/// [`Parts`], ready to be served.
pub(crate) struct Catalog<S> {
    pub(crate) parts: Parts<S>,
    tools: HashMap<String, usize>,
    resources: HashMap<String, usize>,
    prompts: HashMap<String, usize>,
    pub(crate) tool_pages: Pages,
    pub(crate) resource_pages: Pages,
    pub(crate) template_pages: Pages,
    pub(crate) prompt_pages: Pages,
    /// What `initialize` is answered while this is what there is; written when it is first asked for.
    pub(crate) hello: OnceLock<Raw>,
}

impl<S> Catalog<S> {
    pub(crate) fn new(parts: Parts<S>, page_size: usize) -> Self {
        let index = |names: &mut dyn Iterator<Item = &str>| {
            names.enumerate().map(|(at, name)| (name.to_owned(), at)).collect()
        };
        let pages = |list, items: &mut dyn Iterator<Item = &Raw>| Pages::new(list, items, page_size);
        Self {
            tools: index(&mut parts.tools.iter().map(|tool| &*tool.entry.name)),
            resources: index(&mut parts.resources.iter().map(|entry| &*entry.name)),
            prompts: index(&mut parts.prompts.iter().map(|prompt| &*prompt.entry.name)),
            hello: OnceLock::new(),
            tool_pages: pages("tools", &mut parts.tools.iter().map(|tool| &tool.entry.listed)),
            resource_pages: pages("resources", &mut parts.resources.iter().map(|entry| &entry.listed)),
            template_pages: pages(
                "resourceTemplates",
                &mut parts.templates.iter().map(|template| &template.entry.listed),
            ),
            prompt_pages: pages("prompts", &mut parts.prompts.iter().map(|prompt| &prompt.entry.listed)),
            parts,
        }
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<ToolEntry<S>>> {
        self.parts.tools.get(*self.tools.get(name)?)
    }

    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Entry<Run<S>>>> {
        self.parts.resources.get(*self.resources.get(uri)?)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<PromptEntry<S>>> {
        self.parts.prompts.get(*self.prompts.get(name)?)
    }

    /// The first template that the URI is of, and what its variables are.
    pub(crate) fn template(&self, uri: &str) -> Option<(&TemplateEntry<S>, Variables<'_>)> {
        /// URIs longer than this are of no template: they are copied and decoded piece by piece.
        const MAX_URI: usize = 8 * 1024;
        if uri.len() > MAX_URI {
            return None;
        }
        self.parts.templates.iter().find_map(|template| Some((&**template, template.template.matches(uri)?)))
    }

    /// Whether something of that URI can be read.
    pub(crate) fn has_resource(&self, uri: &str) -> bool {
        self.resources.contains_key(uri) || self.template(uri).is_some()
    }
}

/// The answers to a list request, written once. A cursor names a page.
#[derive(PartialEq, Eq)]
pub(crate) struct Pages(Vec<Raw>);

impl Pages {
    fn new(list: &str, items: &mut dyn Iterator<Item = &Raw>, size: usize) -> Self {
        let items: Vec<&Raw> = items.collect();
        let mut pages = Vec::new();
        // An empty list is one page too.
        let chunks: Vec<&[&Raw]> =
            if items.is_empty() { vec![&[]] } else { items.chunks(size.max(1)).collect() };
        for (at, chunk) in chunks.iter().enumerate() {
            let mut page = format!("{{\"{list}\":[");
            for (index, item) in chunk.iter().enumerate() {
                if index > 0 {
                    page.push(',');
                }
                page.push_str(item.as_str());
            }
            page.push(']');
            if at + 1 < chunks.len() {
                page.push_str(&format!(",\"nextCursor\":\"{}\"", cursor(at + 1)));
            }
            page.push('}');
            pages.push(Raw::from_trusted(page.into()));
        }
        Self(pages)
    }

    /// The page of a cursor, the first one without; `None` where there is no such page.
    pub(crate) fn get(&self, cursor: Option<&str>) -> Option<&Raw> {
        let Some(cursor) = cursor else { return self.0.first() };
        let text = String::from_utf8(BASE64.decode(cursor).ok()?).ok()?;
        self.0.get(text.strip_prefix("page:")?.parse::<usize>().ok()?)
    }
}

fn cursor(page: usize) -> String {
    BASE64.encode(format!("page:{page}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn pages_hold_everything_once() {
        let items: Vec<Raw> = (0..5).map(|n| Raw::from_value(&n).unwrap()).collect();
        let pages = Pages::new("things", &mut items.iter(), 2);
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page: Value = pages.get(cursor.as_deref()).unwrap().to().unwrap();
            seen.extend(page["things"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()));
            let Some(next) = page.get("nextCursor") else { break };
            cursor = Some(next.as_str().unwrap().to_owned());
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        for bad in ["", "x", "cGFnZTo5", "cGFnZTp4"] {
            assert!(pages.get(Some(bad)).is_none(), "{bad}");
        }
        assert_eq!(Pages::new("things", &mut [].iter(), 2).get(None).unwrap().as_str(), r#"{"things":[]}"#);
    }
}
