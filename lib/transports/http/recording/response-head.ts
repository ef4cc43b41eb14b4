import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { HeaderFields } from './response-shadow.js';

/** HTTP/2 has none, and Node warns of whoever asks (RFC 9113 §8.3.2). */
function hasReason({ req }: ServerResponse): boolean {
  return req.httpVersionMajor < 2;
}

export function reasonOf(response: ServerResponse): string | undefined {
  return hasReason(response) ? response.statusMessage : undefined;
}

export function setReason(response: ServerResponse, reason: string | undefined): void {
  if (hasReason(response)) Object.assign(response, { statusMessage: reason });
}

/** The fields without one of them. */
export function withoutField(fields: HeaderFields, name: string): HeaderFields {
  const isOther = (other: unknown) => String(other).toLowerCase() !== name.toLowerCase();
  if (!Array.isArray(fields)) {
    const named = Object.entries(fields as OutgoingHttpHeaders);
    return Object.fromEntries(named.filter(([other]) => isOther(other)));
  }
  const list = fields as readonly (OutgoingHttpHeader | readonly [string, string])[];
  const isPaired = Array.isArray(list[0]);
  return list.filter((field, i) => isOther([isPaired ? field : list[i - (i % 2)]].flat()[0]));
}

/** As `writeHead` does it: they replace what was there. */
export function setFields(response: ServerResponse, fields: HeaderFields = {}): void {
  if (!Array.isArray(fields)) {
    for (const [name, value] of Object.entries(fields as OutgoingHttpHeaders)) {
      if (value !== undefined) response.setHeader(name, value);
    }
    return;
  }
  // As Node does it: they replace what was there, and may repeat a name among themselves.
  const flat = (fields as readonly unknown[]).flat().map(String);
  for (let i = 0; i + 1 < flat.length; i += 2) response.removeHeader(flat[i] ?? '');
  for (let i = 0; i + 1 < flat.length; i += 2)
    response.appendHeader(flat[i] ?? '', flat[i + 1] ?? '');
}
