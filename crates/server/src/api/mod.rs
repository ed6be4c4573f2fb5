//! What the server speaks: requests and responses of OpenAI's and Anthropic's APIs, with specreel's extensions. All requests become
//! a [`ChatRequest`].

mod fields;
mod ignored;
pub mod messages;
mod read;
mod request;
mod response;
pub mod responses;

pub use fields::{Fields, parse};
pub use read::{MAX_NEW_TOKENS, read, text_fields};
pub use request::{
    ChatRequest, Content, Extension, InputVideo, Limit, MediaUrl, Message, Part, Role, TextFields,
};
pub use response::{
    CachedTokens, Chat, Choice, Chunk, ChunkChoice, Delta, FileDeleted, FileList, FileObject, Logprob,
    Logprobs, MessageOut, ModelList, ModelObject, PieceReport, PromptReport, ReasoningTokens, Report,
    RowReport, RunReport, TokenReport, TopLogprob, Usage,
};

#[cfg(test)]
mod tests;
