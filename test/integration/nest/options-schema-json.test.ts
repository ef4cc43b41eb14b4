import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { OPTIONS, resolveModuleOptions } from '../../support/internals/nest/options.js';
import { projectRoot } from '../../support/project-root.js';

interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly pattern?: string;
  readonly items?: JsonSchema;
  readonly default?: unknown;
  readonly description?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
}

const schema = JSON.parse(
  readFileSync(join(projectRoot, 'options.schema.json'), 'utf8'),
) as JsonSchema;

interface Leaf {
  readonly path: readonly string[];
  readonly leaf: JsonSchema;
}

/** Each option that has a type of its own, and each shorthand. */
function leavesOf(
  path: readonly string[],
  { properties, anyOf = [], ...leaf }: JsonSchema,
): Leaf[] {
  const members = Object.entries(properties ?? {});
  return [
    ...members.flatMap(([name, member]) => leavesOf([...path, name], member)),
    ...anyOf.flatMap((each) => leavesOf(path, each)),
    ...(properties === undefined && anyOf.length === 0 ? [{ path, leaf }] : []),
  ];
}

const leaves = leavesOf([], schema).map(({ path, leaf }) => ({
  option: path.join('.'),
  path,
  leaf,
}));

/** The options with only this one, and what it requires of others. */
function given(path: readonly string[], value: unknown): object {
  const [group = '', field] = path;
  if (field === undefined) return { [group]: value };
  const room = {
    durationMs: { maxExecutionMs: 86_400_000 },
    maxExecutionMs: { durationMs: 100 },
    recoverOn: { onTakeover: () => 'run' },
  };
  return { [group]: { ...room[field as keyof typeof room], [field]: value } };
}

const accepts = (path: readonly string[], value: unknown) => {
  const store = memoryStore();
  const unitOfWork = {
    run: check,
    isConflict: check,
    isInterruption: check,
    isReplyMismatch: check,
  };
  Object.defineProperty(store, 'transactional', { value: {} });
  const options = { store, unitOfWork, ...given(path, value) };
  resolveModuleOptions(options);
};

function check(): never {
  throw new Error('unused');
}

it.each(leaves)('$option of the JSON Schema is what the module takes', ({ path, leaf }) => {
  const { type, enum: words, minimum = 0, maximum = 0 } = leaf;
  const texts: Record<string, string> = { problemTypeBase: 'urn:problems' };
  const valid: Record<string, unknown[]> = {
    integer: [minimum, maximum],
    boolean: [true, false],
    string: [texts[path.at(-1) ?? ''] ?? 'X-Text'],
    array: [[], ['X-Text']],
  };
  const invalid: Record<string, unknown[]> = {
    integer: [minimum - 1, maximum + 1, minimum + 0.5, String(minimum)],
    boolean: ['true', 1],
    string: [1, true],
    array: ['X-Text', [1]],
  };
  for (const value of words ?? valid[type ?? ''] ?? []) {
    expect(() => accepts(path, value)).not.toThrow();
  }
  const wrong = words === undefined ? invalid[type ?? ''] : ['?', 1, null];
  expect(wrong).toBeDefined();
  for (const value of wrong ?? []) expect(() => accepts(path, value)).toThrow(path.join('.'));
});

/** Texts that one option or another does not take. */
const TEXTS = [
  '',
  ' ',
  'a b',
  'Ä',
  'X-Text',
  'urn:problems',
  'https://a.b/',
  'a:b\n',
  '5',
  'a_b.c',
];

it('the JSON Schema takes a text exactly where the module does', () => {
  const lists = leaves.filter(({ leaf }) => leaf.type === 'array');
  const texts = leaves.filter(({ leaf }) => leaf.type === 'string');
  expect([lists.length, texts.length]).toEqual([5, 5]);
  for (const { path, leaf } of [...lists, ...texts]) {
    const { minLength = 0, pattern = '' } = leaf.items ?? leaf;
    for (const text of TEXTS) {
      const isTaken = text.length >= minLength && new RegExp(pattern, 'u').test(text);
      const assertion = expect(() => accepts(path, leaf.items === undefined ? text : [text]));
      if (isTaken) assertion.not.toThrow();
      else assertion.toThrow(path.join('.'));
    }
  }
});

it('the JSON Schema has every option but functions, the store and the like, each with a description', () => {
  const own = Object.entries(OPTIONS as unknown as Record<string, { readonly fields?: object }>);
  const all = own.flatMap(([name, { fields }]) =>
    fields === undefined ? [name] : Object.keys(fields).map((field) => `${name}.${field}`),
  );
  const names = new Set(leaves.map(({ option }) => option));
  expect(all.filter((name) => !names.has(name)).sort()).toEqual([
    'caller.scope',
    'operation',
    'outcome.codec',
    'outcome.keep',
    'store',
    'telemetry',
    'unitOfWork',
  ]);
  // The lists of a fingerprint's selection are described with it.
  const { fingerprint, ...described } = schema.properties ?? {};
  expect(fingerprint?.description).toBeDefined();
  for (const { description, anyOf, properties } of Object.values(described)) {
    const members = [properties, ...(anyOf ?? []).map((each) => each.properties)].flatMap((each) =>
      Object.values(each ?? {}),
    );
    const texts = [description, ...members.map((member) => member.description)];
    expect(texts.every((text) => text !== undefined && text !== '')).toBe(true);
  }
});

it('the JSON Schema states the defaults that apply', () => {
  const defaults: unknown = resolveModuleOptions({
    store: memoryStore(),
    breaker: true,
    reconcile: true,
  });
  for (const { path, leaf } of leaves) {
    if (leaf.default === undefined || path[0] === 'transaction') continue;
    const value = path.reduce(
      (each: unknown, name) => (each as Record<string, unknown>)[name],
      defaults,
    );
    expect([path, leaf.default]).toEqual([path, value]);
  }
});
