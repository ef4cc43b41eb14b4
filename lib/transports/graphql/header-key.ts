import { fieldLines, keyInLines, type ParsedKey } from '../common/idempotency-key.js';
import type { FieldRequest, GraphqlField } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';

/**
 * The key that a field gets from its request's header. All fields of a document share the header: the field's response
 * name, its alias if it has one, is a part of its key.
 *
 * @returns `undefined` where there is no header, and `false` where it says no key.
 */
export function headerKey(
  { request, info }: GraphqlField,
  { keyField, keySyntax, options }: GraphqlRoute,
): ParsedKey | undefined {
  if (request === undefined || keyField === undefined || isUpgrade(request)) return undefined;
  const key = keyInLines(linesOf(request, keyField), keySyntax, options.maxKeyLength);
  // A name holds no space, so that no other name and key make the same text.
  return typeof key === 'string' ? `${String(info.path.key)} ${key}` : key;
}

/** The request that opened a WebSocket: its header would be that of every message. */
function isUpgrade(request: FieldRequest): boolean {
  return linesOf(request, 'upgrade').some((line) => line.toLowerCase() === 'websocket');
}

function linesOf({ rawHeaders, raw, headers }: FieldRequest, name: string): readonly string[] {
  const lines = rawHeaders ?? raw?.rawHeaders;
  if (lines !== undefined) return fieldLines(lines, name);
  return [headers?.[name] ?? []].flat().map(String);
}
