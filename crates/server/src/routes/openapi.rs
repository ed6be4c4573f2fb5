//! `/openapi.json`: the routes, with schemas that come from the types.

use std::sync::LazyLock;

use axum::Json;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::api::{Chat, ChatRequest, Chunk, FileDeleted, FileList, FileObject, ModelList, ModelObject};
use crate::{error::ErrorBody, search::FindMoments};

static DOCUMENT: LazyLock<Value> = LazyLock::new(build);

pub async fn document() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

fn build() -> Value {
    let mut schemas = SchemaSettings::openapi3().into_generator();
    let mut answers = SchemaSettings::openapi3().for_serialize().into_generator();
    let request = of::<ChatRequest>(&mut schemas);
    let search = of::<FindMoments>(&mut schemas);
    let error = of::<ErrorBody>(&mut answers);
    let response = |about: &str, schema: Value| {
        json!({
            "200": {"description": about, "content": {"application/json": {"schema": schema}}},
            "default": {"description": "Error", "content": {"application/json": {"schema": error}}},
        })
    };
    let id = json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}]);
    let mut chat = response("The answer", of::<Chat>(&mut answers));
    chat["200"]["content"]["text/event-stream"] = json!({"schema": of::<Chunk>(&mut answers)});
    let upload = json!({
        "type": "object",
        "required": ["file"],
        "properties": {"file": {"type": "string", "format": "binary"}, "purpose": {"type": "string"}},
    });
    let any = || json!({"type": "object"});
    let text = json!({"200": {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}});
    let paths = json!({
        "/v1/chat/completions": {"post": {
            "summary": "Ask about a video",
            "requestBody": {"required": true, "content": {"application/json": {"schema": request}}},
            "responses": chat,
        }},
        "/v1/responses": {"post": {
            "summary": "Ask about a video, in OpenAI's newer API; responses are not stored",
            "requestBody": {"required": true, "content": {"application/json": {"schema": any()}}},
            "responses": response("The response", any()),
        }},
        "/v1/messages": {"post": {
            "summary": "Ask about a video, in Anthropic's API",
            "requestBody": {"required": true, "content": {"application/json": {"schema": any()}}},
            "responses": response("The message", any()),
        }},
        "/v1/models": {"get": {
            "summary": "List the models", "responses": response("The models", of::<ModelList>(&mut answers)),
        }},
        "/v1/models/{id}": {"get": {
            "summary": "Show a model", "parameters": id, "responses": response("The model", of::<ModelObject>(&mut answers)),
        }},
        "/v1/files": {
            "get": {
                "summary": "List uploaded files", "responses": response("The files", of::<FileList>(&mut answers)),
            },
            "post": {
                "summary": "Upload a video",
                "requestBody": {"required": true, "content": {"multipart/form-data": {"schema": upload}}},
                "responses": response("The file", of::<FileObject>(&mut answers)),
            },
        },
        "/v1/files/{id}": {
            "get": {
                "summary": "Show an uploaded file", "parameters": id, "responses": response("The file", of::<FileObject>(&mut answers)),
            },
            "delete": {
                "summary": "Delete an uploaded file",
                "parameters": id,
                "responses": response("Deleted", of::<FileDeleted>(&mut answers)),
            },
        },
        "/v1/search": {"post": {
            "summary": "Find moments by words of their captions and of what is said in them",
            "requestBody": {"required": true, "content": {"application/json": {"schema": search}}},
            "responses": response("The moments", any()),
        }},
        "/mcp": {"post": {
            "summary": "The Model Context Protocol over streamable HTTP",
            "requestBody": {"required": true, "content": {"application/json": {"schema": any()}}},
            "responses": response("The result", any()),
        }},
        "/events": {"get": {
            "summary": "The events of all runs, with --allow-follow",
            "responses": {"200": {"description": "Events", "content": {"text/event-stream": {"schema": any()}}}},
        }},
        "/health": {"get": {
            "summary": "Whether requests can be answered: 503 while models load, and at the end", "security": [],
            "responses": response("The status", any()),
        }},
        "/metrics": {"get": {"summary": "Metrics", "responses": text}},
        "/props": {"get": {"summary": "Properties, as llama-server has them", "responses": response("The properties", any())}},
        "/openapi.json": {"get": {"summary": "This document", "responses": response("The document", any())}},
    });
    let mut components = schemas.take_definitions(true);
    components.extend(answers.take_definitions(true));
    json!({
        "openapi": "3.0.3",
        "info": {"title": "specreel", "version": env!("CARGO_PKG_VERSION"), "description": "Questions about videos"},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    })
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}
