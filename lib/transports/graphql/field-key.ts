import type { ExecutionContext } from '@nestjs/common';
import { selectMembers } from '../../core/record/content-selection.js';
import { rejectionError } from '../../core/errors/errors.js';
import { missingKey } from '../call/value-route.js';
import { askKey, askOption } from '../common/ask-option.js';
import { fieldLines } from '../common/header-fields.js';
import { asKeyText, isOfSyntax, keyInLines, type ParsedKey } from '../common/idempotency-key.js';
import { misnamedKey } from '../common/misnamed-key.js';
import { fieldOf, type FieldRequest, type GraphqlField } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';

/** The key of a mutation field, if any. @throws {@link OperationRejectedError} for a missing or invalid key. */
export function fieldKey(
  context: ExecutionContext,
  field: GraphqlField,
  route: GraphqlRoute,
): string | undefined {
  const { operation, options } = route;
  const { from: choose, required, maxLength } = options.key;
  const key =
    typeof choose === 'function'
      ? plainKey(askKey(choose, context, operation), route)
      : askOption('key.syntax', operation, () => keyInField(field, route));
  if (key === false) {
    const form = `one string of 1–${String(maxLength)} characters that the option "key.syntax" allows`;
    throw rejectionError('idempotency_key_invalid', { operation, form });
  }
  if (key === undefined && required) {
    throw missingKey(operation, options.key, remedyFor(route));
  }
  return key;
}

/** The header of a request that probably has the key under another name. The schema names the arguments. */
export function misnamedIn(
  context: ExecutionContext,
  { keyField }: GraphqlRoute,
): string | undefined {
  const { request } = fieldOf(context);
  if (request === undefined || keyField === undefined || isUpgrade(request)) return undefined;
  return misnamedKey(Object.keys(request.headers ?? {}), keyField);
}

/** The argument comes before the header. */
function keyInField(field: GraphqlField, route: GraphqlRoute): ParsedKey | undefined {
  const own = argumentKey(field.args);
  if (own === undefined) return headerKey(field, route);
  const key = plainKey(own, route);
  return typeof key === 'string' && isOfSyntax(key, route.options.key.syntax) && key;
}

function plainKey(value: unknown, { options }: GraphqlRoute): ParsedKey | undefined {
  if (value === undefined) return undefined;
  const key = asKeyText(value);
  return typeof key === 'string' && key !== '' && key.length <= options.key.maxLength && key;
}

function remedyFor({ options }: GraphqlRoute): string {
  const { from } = options.key;
  if (typeof from === 'function') return 'The function given as the option "key" returned none.';
  return `Send one key per intended operation, and the same key with every retry: as the field's argument "idempotencyKey" (or that member of its argument "input"), or in the request's header ${from}.`;
}

/**
 * The key of a field from its request's header; `false` if it is invalid. All fields of a document share the header, so
 * the field's response name (its alias, if any) is part of its key.
 */
export function headerKey(
  { request, info }: GraphqlField,
  { keyField, options }: GraphqlRoute,
): ParsedKey | undefined {
  if (request === undefined || keyField === undefined || isUpgrade(request)) return undefined;
  const key = keyInLines(linesOf(request, keyField), options.key.syntax, options.key.maxLength);
  // Unambiguous, as a name contains no space.
  return typeof key === 'string' ? `${String(info.path.key)} ${key}` : key;
}

/** Whether the request opened a WebSocket: all messages of it would share the header. */
function isUpgrade(request: FieldRequest): boolean {
  return linesOf(request, 'upgrade').some((line) => line.toLowerCase() === 'websocket');
}

function linesOf({ rawHeaders, raw, headers }: FieldRequest, name: string): readonly string[] {
  return fieldLines(rawHeaders ?? raw?.rawHeaders, headers ?? raw?.headers, name);
}

type Arguments = GraphqlField['args'];

/** The argument that is the key, or the member of the argument `input`. */
const KEY = 'idempotencyKey';

function argumentKey(args: Arguments): unknown {
  return args[KEY] ?? inputOf(args)?.[KEY] ?? undefined;
}

export function withoutKey(args: Arguments): Arguments {
  const { [KEY]: _, ...content } = args;
  const input = inputOf(args);
  // A scalar may have parsed it to more than its members.
  return input === undefined
    ? content
    : { ...content, input: selectMembers(input, undefined, [KEY]) };
}

function inputOf({ input }: Arguments): Arguments | undefined {
  return typeof input === 'object' && input !== null && KEY in input ? input : undefined;
}
