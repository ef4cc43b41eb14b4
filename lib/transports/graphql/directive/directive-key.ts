import type { GraphQLResolveInfo } from 'graphql';
import { missingPeer } from '../../../core/missing-peer.js';
import type { ParsedKey } from '../../request/idempotency-key.js';
import type { FieldInfo } from '../graphql-field.js';
import { newIdempotentDirective } from './new-directive.js';

/** Reads what `@idempotent` gives a field. */
export type DirectiveKey = (info: FieldInfo) => ParsedKey | undefined;

let loading: Promise<DirectiveKey> | undefined;

/** Loads `graphql`, which is there where fields are. */
export function loadDirectiveKey(): Promise<DirectiveKey> {
  return (loading ??= load());
}

async function load(): Promise<DirectiveKey> {
  const graphql = await importGraphql();
  const directive = newIdempotentDirective(graphql);
  return (info) => {
    const { fieldNodes, variableValues } = info as unknown as GraphQLResolveInfo;
    try {
      const keys = fieldNodes
        .map((node) => graphql.getDirectiveValues(directive, node, variableValues))
        .filter((values) => values !== undefined)
        .map(({ key }) => key as string);
      // A field that stands in a document more than once is executed once.
      return new Set(keys).size > 1 ? false : keys[0];
    } catch {
      // The schema has declared it otherwise. Not the cause: its message quotes the key.
      return false;
    }
  };
}

async function importGraphql(): Promise<typeof import('graphql')> {
  try {
    return await import('graphql');
  } catch (error) {
    throw missingPeer(error, 'graphql', 'The directive @idempotent needs');
  }
}
