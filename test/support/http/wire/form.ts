import { randomUUID } from 'node:crypto';
import type { Sending } from '../scenario.js';

export interface Part {
  readonly name: string;
  readonly value: string | Buffer;
  /** Makes it a file. */
  readonly filename?: string;
  readonly type?: string;
}

/** A multipart body with a boundary of its own, as a client chooses a new one for each attempt. */
export function form(...parts: readonly Part[]): Sending {
  const boundary = `boundary-${randomUUID()}`;
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([
      ...parts.flatMap((part) => [Buffer.from(head(boundary, part)), Buffer.from(part.value)]),
      Buffer.from(`\r\n--${boundary}--\r\n`),
    ]),
  };
}

function head(boundary: string, { name, filename, type }: Part): string {
  const file = filename === undefined ? '' : `; filename="${filename}"`;
  const lines = [`--${boundary}`, `Content-Disposition: form-data; name="${name}"${file}`];
  if (type !== undefined) lines.push(`Content-Type: ${type}`);
  return `\r\n${lines.join('\r\n')}\r\n\r\n`;
}

/** The same parts, with a change in one of them. */
export function changed(
  parts: readonly Part[],
  name: string,
  change: Partial<Part>,
): readonly Part[] {
  return parts.map((part) => (part.name === name ? { ...part, ...change } : part));
}
