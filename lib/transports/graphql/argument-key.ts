import { selectMembers } from '../../core/record/content-selection.js';
import type { GraphqlField } from './graphql-field.js';

type Arguments = GraphqlField['args'];

/** The argument that is the key, and the member of the argument `input` that is. */
const KEY = 'idempotencyKey';

/** The key among a field's arguments, whatever it is; `undefined` where there is none. */
export function argumentKey(args: Arguments): unknown {
  return args[KEY] ?? inputOf(args)?.[KEY] ?? undefined;
}

/** What a field is asked to do: its arguments without the key. */
export function withoutKey(args: Arguments): Arguments {
  const { [KEY]: _, ...content } = args;
  const input = inputOf(args);
  // What a scalar has made of it may be more than its members.
  return input === undefined
    ? content
    : { ...content, input: selectMembers(input, undefined, [KEY]) };
}

function inputOf({ input }: Arguments): Arguments | undefined {
  return typeof input === 'object' && input !== null && KEY in input ? input : undefined;
}
