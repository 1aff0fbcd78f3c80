//! Prompts people can call up: summarise a document, answer from what is known.

use lyceum_kb::store::Filter;
use lyceum_kb::{Code, DocPath, Error, Kb, Prefix, Search};
use lyceum_server::{
    Call, Content, Prompt, PromptArguments, PromptMessage, ResourceContents, ToolError, prompt,
};
use lyceum_wire::RpcError;

use crate::knowledge::charge::Payer;
use crate::knowledge::rights::DocumentAccess;
use crate::knowledge::{completions, desk, uri};

/// The most text a prompt carries, in characters.
const MAX_TEXT: usize = 100_000;
/// The passages a question starts with.
const PASSAGES: usize = 5;

/// Bytes of a question, which the prompt repeats.
const MAX_QUESTION: usize = 8192;

/// The names of all prompts.
pub(crate) const NAMES: [&str; 2] = ["summarise_document", "answer_from_knowledge"];

/// What a prompt shows of the documents.
pub(crate) fn access(name: &str) -> DocumentAccess {
    match name == NAMES[0] {
        true => DocumentAccess::SummarisePrompt,
        false => DocumentAccess::AnswerPrompt,
    }
}

/// All prompts.
pub(crate) fn all(kb: &Kb, max_text: usize) -> [Prompt; 2] {
    [summarise_document(kb.clone(), max_text), answer_from_knowledge(kb.clone())]
}

fn summarise_document(kb: Kb, max_text: usize) -> Prompt {
    let of_paths = kb.clone();
    prompt(
        NAMES[0],
        "Summarises a document of the knowledge base.",
        move |call: Call, arguments: PromptArguments| {
            let kb = kb.on_behalf_of(desk::caller(&call));
            summary(call, kb, arguments, max_text)
        },
    )
    .title("Summarise a document")
    .argument("path", "The document, e.g. guides/setup.md.")
    .complete("path", move |completing| completions::paths(of_paths.clone(), completing))
}

fn answer_from_knowledge(kb: Kb) -> Prompt {
    let (of_tags, of_paths) = (kb.clone(), kb.clone());
    prompt(
        NAMES[1],
        "Answers a question from the knowledge base, with its sources.",
        move |call: Call, arguments: PromptArguments| {
            question(kb.on_behalf_of(desk::caller(&call)), arguments)
        },
    )
    .title("Answer from the knowledge base")
    .argument("question", "What you want to know.")
    .optional_argument("tag", "Only look at documents with this tag.")
    .optional_argument("prefix", "Only look at documents whose path begins with this.")
    .complete("tag", move |completing| completions::tags(of_tags.clone(), completing))
    .complete("prefix", move |completing| completions::paths(of_paths.clone(), completing))
}

async fn summary(
    call: Call,
    kb: Kb,
    arguments: PromptArguments,
    max_text: usize,
) -> Result<Vec<PromptMessage>, ToolError> {
    let path = DocPath::parse(arguments.get("path")).map_err(refused)?;
    let _work = Payer::of(&call).work(2 * max_text).await.map_err(refused)?;
    let document = kb.get(&path).await.map_err(refused)?;
    let mut text = document.body;
    let mut note = "";
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.shrink_to_fit();
        note = " Only its beginning is shown here; read the rest with get_document_for_rewrite.";
    }
    let instruction = format!(
        "Summarise the document {path} for somebody who has not read it: first what it is about in \
         one sentence, then its main points as a list, then anything the reader must do. Keep \
         numbers and names as they are, and add nothing that is not there.{note}"
    );
    let contents = ResourceContents::text(uri::of(&path), text);
    let contents = contents.mime_type(document.meta.mime_type.as_str());
    Ok(vec![PromptMessage::user(instruction), PromptMessage::user(Content::resource(contents))])
}

async fn question(kb: Kb, arguments: PromptArguments) -> Result<String, ToolError> {
    let (question, tag) = (arguments.get("question").trim(), arguments.get("tag"));
    if question.is_empty() {
        return Err(refused(Error::invalid("question: say what you want to know")));
    }
    if question.len() > MAX_QUESTION {
        let bound = format!("question: give at most {MAX_QUESTION} bytes");
        return Err(refused(Error::invalid(bound)));
    }
    let tags = if tag.is_empty() { Vec::new() } else { vec![tag.to_owned()] };
    let prefix = Prefix::parse(arguments.get("prefix")).map_err(refused)?;
    let search = Search {
        query: question.to_owned(),
        limit: PASSAGES,
        filter: Filter { tags, prefix, updated_since: None },
        explain: false,
    };
    let found = kb.search(&search).await.map_err(refused)?;
    let mut text = format!(
        "Answer the question from the knowledge base only. Name the document_id of every document \
         you use, in brackets after the sentence it supports. If the passages below are not enough, \
         look further with search_knowledge and get_document; if the knowledge base does not say, \
         say so.\n\nQuestion: {question}\n\nPassages found so far:\n"
    );
    for hit in &found.hits {
        text.push_str(&format!("\n[{}] {}\n{}\n", hit.meta.path, hit.meta.title, hit.snippet.text));
    }
    if found.hits.is_empty() {
        text.push_str("\n(none)\n");
    }
    Ok(text)
}

/// Prompts have no room for failures, so they are errors of the protocol.
fn refused(error: Error) -> ToolError {
    let message = error.to_string();
    ToolError::rpc(match error.code() {
        Code::Internal | Code::Unavailable => RpcError::internal(message),
        _ => RpcError::invalid_params(message),
    })
}
