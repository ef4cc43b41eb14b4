import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const requestsFolder = join(import.meta.dirname, '../requests');

/** What replaces `{{name}}`: text is sent in UTF-8, bytes as they are. */
export type Values = Readonly<Record<string, string | Buffer>>;

/** A request as in its file. */
export interface RequestTemplate {
  readonly method: string;
  readonly head: string;
  readonly body: string | undefined;
}

/** What nearly all requests have in common, so that a file shows what is special about each. */
const USUAL: Readonly<Record<string, string>> = {
  usual: [
    'Host: {{host}}',
    'Connection: close',
    'Authorization: Caller id="alice"',
    'X-Scenario: {{scenario}}',
  ].join('\n'),
  json: 'Content-Type: application/json\nContent-Length: {{length}}',
};

/** The text below each line `## {clause} …` of the request files. */
export function requestTexts(): Map<string, string> {
  const files = readdirSync(requestsFolder).map((file) => join(requestsFolder, file));
  const sections = files.flatMap((file) => readFileSync(file, 'utf8').split(/^## /m).slice(1));
  return new Map(sections.map((section) => [section.split(' ', 1)[0]!, section]));
}

let texts: Map<string, string> | undefined;

/** Reads the requests of one clause, by the names after `###`. */
export function readRequests(clause: string): Map<string, RequestTemplate> {
  texts ??= requestTexts();
  const text = texts.get(clause);
  if (text === undefined) throw new Error(`there are no requests of ${clause}`);
  const [, ...blocks] = text.split(/^### /m);
  return new Map(
    blocks.map((block) => {
      const nameEnd = block.indexOf('\n');
      // Every line of a request is sent with CRLF; those that end the block are not part of its body.
      const lines = block.slice(nameEnd + 1).replace(/\n+$/, '');
      const headEnd = lines.indexOf('\n\n');
      const head = headEnd === -1 ? lines : lines.slice(0, headEnd);
      const body = headEnd === -1 ? undefined : lines.slice(headEnd + 2);
      return [block.slice(0, nameEnd), { method: head.split(' ', 1)[0] ?? '', head, body }];
    }),
  );
}

/** The bytes to send. `{{length}}` is the body's. */
export function fill({ head, body }: RequestTemplate, values: Values): Buffer {
  const content = body === undefined ? Buffer.alloc(0) : fillText(body, values);
  const length = String(content.length);
  const usual = head.replaceAll(/\{\{(usual|json)\}\}/g, (_, name: string) => USUAL[name]!);
  return Buffer.concat([fillText(`${usual}\n\n`, { ...values, length }), content]);
}

function fillText(text: string, values: Values): Buffer {
  const pieces = text.replaceAll('\n', '\r\n').split(/\{\{(.+?)\}\}/);
  return Buffer.concat(
    pieces.map((piece, index) => {
      const value = index % 2 === 0 ? piece : values[piece];
      if (value === undefined) throw new Error(`{{${piece}}} has no value`);
      return Buffer.from(value as string);
    }),
  );
}
