import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { JSON_OPTIONS } from '../../internals/codecs.js';
import { OPTIONS } from '../../internals/nest.js';
import {
  HEALTH_OPTIONS,
  INDICATOR_OPTIONS,
  METRICS_OPTIONS,
  OPEN_TELEMETRY_OPTIONS,
  PROMETHEUS_OPTIONS,
} from '../../internals/observability.js';
import { CONSOLE_OPTIONS } from '../../internals/console.js';
import { MEMORY_OPTIONS } from '../../internals/memory.js';
import { FILE_BLOBS, S3_BLOBS } from '../../internals/blobs.js';
import {
  DELETION,
  POSTGRES_BLOBS,
  POSTGRES_JOURNAL,
  POSTGRES_OPTIONS,
  TABLE,
} from '../../internals/postgres.js';
import { COMMON, GLIDE_OWN, NODE_REDIS_OWN, OWN, REDIS_JOURNAL } from '../../internals/redis.js';
import { SQLITE_OPTIONS } from '../../internals/sqlite.js';
import { MYSQL_OWN, MYSQL_TABLE } from '../../internals/mysql.js';
import { projectRoot } from '../../project-root.js';
import { inBrief } from './doc-comments.js';

/** A text that is written by a script. */
export interface TextModule {
  /** Within the project. */
  readonly path: string;
  readonly source: string;
}

/** Where the interfaces of options are declared. */
const FILES = [
  'core/operation/options',
  'core/payload/pack-options',
  'core/payload/protect-digests',
  'core/record/annotations',
  'core/recovery/reconcile',
  'core/operator/operator-options',
  'transports/common/request-options',
  'transports/http/http-options',
  'transports/message/message-options',
  'wrappers/breaker/breaker-options',
  'nest/options/idempotency-options',
].map((name) => `lib/${name}.ts`);

/** Files of stores, codecs, health checks and telemetry, with the schemas of their interfaces. */
const OTHERS: Readonly<Record<string, object>> = {
  'lib/codecs/json/json-codec.ts': JSON_OPTIONS,
  'lib/observability/health/idempotency-health.ts': HEALTH_OPTIONS,
  'lib/observability/opentelemetry/metrics.ts': METRICS_OPTIONS.fields,
  'lib/observability/opentelemetry/open-telemetry.ts': OPEN_TELEMETRY_OPTIONS,
  'lib/observability/prometheus/prometheus.ts': PROMETHEUS_OPTIONS,
  'lib/observability/terminus/idempotency-health-indicator.ts': INDICATOR_OPTIONS,
  'lib/console/console-options.ts': CONSOLE_OPTIONS,
  'lib/blobs/file/file-blobs.ts': FILE_BLOBS,
  'lib/blobs/s3/s3-blobs.ts': S3_BLOBS,
  'lib/stores/memory/memory-idempotency-store.ts': MEMORY_OPTIONS,
  'lib/stores/sqlite/sqlite-store-options.ts': {
    ...SQLITE_OPTIONS,
    ...('fields' in SQLITE_OPTIONS.deleteExpired && SQLITE_OPTIONS.deleteExpired.fields),
  },
  'lib/stores/redis/redis-store-options.ts': { ...COMMON, ...OWN },
  'lib/stores/redis/redis-journal.ts': REDIS_JOURNAL.fields,
  'lib/stores/redis/node-redis/node-redis-store.ts': NODE_REDIS_OWN,
  'lib/stores/redis/valkey-glide/glide-store.ts': GLIDE_OWN,
  'lib/stores/postgres/postgres-store-options.ts': POSTGRES_OPTIONS,
  'lib/stores/postgres/postgres-journal.ts': POSTGRES_JOURNAL.fields,
  'lib/stores/postgres/postgres-blobs.ts': POSTGRES_BLOBS,
  'lib/stores/postgres/sql/table-name.ts': TABLE,
  'lib/stores/mysql/mysql-store-options.ts': MYSQL_OWN,
  'lib/stores/mysql/sql/table-name.ts': MYSQL_TABLE,
  'lib/stores/shared/deletion.ts': {
    ...DELETION,
    ...('fields' in DELETION.deleteExpired && DELETION.deleteExpired.fields),
  },
};

/** The interfaces whose members stand beside each other, in the order of the documentation. */
const TOP = ['RequestOptions', 'ProtocolOptions', 'IdempotencyOptions', 'IdempotencyModuleOptions'];

const DOCS = 'docs/reference/options.md';
const MARKERS = ['<!-- options: npm run texts -->', '<!-- end of options -->'] as const;
const WIDTH = 120;

interface Entry {
  readonly default?: unknown;
  readonly defaultText?: string;
  readonly range?: readonly [min: unknown, max: unknown];
  readonly places?: readonly string[];
  readonly fields?: Readonly<Record<string, Entry>>;
  readonly shorthand?: string;
  readonly isSwitched?: boolean;
}

/** An option as it is declared and described. */
interface Declared {
  readonly path: string;
  readonly entry: Entry;
  readonly file: string;
  readonly node: ts.PropertySignature;
  readonly fields: readonly Declared[];
}

/** What is written from the schema of the options: their comments and their table. */
export function optionTexts(): TextModule[] {
  const options = declaredOptions();
  return [
    ...FILES.map((path) => ({ path, source: withDefaults(path, options) })),
    ...Object.keys(OTHERS).map((path) => ({ path, source: withDefaults(path, optionsIn(path)) })),
    { path: DOCS, source: withTable(options) },
  ];
}

/** @throws if an option of the schema is not declared, or not described. */
function declaredOptions(): Declared[] {
  const interfaces = new Map<string, { file: string; node: ts.InterfaceDeclaration }>();
  for (const file of FILES) {
    ts.forEachChild(parsed(file), (node) => {
      if (ts.isInterfaceDeclaration(node)) interfaces.set(node.name.text, { file, node });
    });
  }
  const membersOf = (name: string, prefix: string, entries: Record<string, Entry>): Declared[] => {
    const { file, node } = interfaces.get(name) as { file: string; node: ts.InterfaceDeclaration };
    return node.members.filter(ts.isPropertySignature).flatMap((member) => {
      const own = member.name.getText();
      const entry = entries[own];
      if (entry === undefined) throw new Error(`${name}.${own} is missing in the schema.`);
      const path = `${prefix}${own}`;
      const group = /\b[A-Z]\w*Options\b/.exec(member.type?.getText() ?? '')?.[0] ?? '';
      const fields = entry.fields && membersOf(group, `${path}.`, entry.fields);
      return [{ path, entry, file, node: member, fields: fields ?? [] }];
    });
  };
  const all = TOP.flatMap((name) => membersOf(name, '', OPTIONS as Record<string, Entry>));
  for (const { path, node } of all.flatMap(withFields)) {
    if (bodyOf(node).length === 0) throw new Error(`The option "${path}" has no description.`);
  }
  return all;
}

/** The option, and those in it. */
function withFields(option: Declared): Declared[] {
  return [option, ...option.fields.flatMap(withFields)];
}

function optionsIn(file: string): Declared[] {
  const entries = OTHERS[file] as Readonly<Record<string, Entry>>;
  return parsed(file)
    .statements.filter(ts.isInterfaceDeclaration)
    .flatMap(({ members }) => members.filter(ts.isPropertySignature))
    .flatMap((node) => {
      const path = node.name.getText();
      const entry = entries[path];
      return entry === undefined ? [] : [{ path, entry, file, node, fields: [] }];
    });
}

function parsed(file: string): ts.SourceFile {
  const source = readFileSync(join(projectRoot, file), 'utf8');
  return ts.createSourceFile(file, source, ts.ScriptTarget.ES2022, true);
}

function commentOf(node: ts.Node): ts.JSDoc | undefined {
  return ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).at(-1);
}

/** The lines of a comment, without those that this file writes. */
function bodyOf(node: ts.PropertySignature): string[] {
  const text = commentOf(node)?.getText() ?? '';
  const lines = text
    .replace(/^\/\*\*|\*\/$/g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\*?\s?/, '').trimEnd());
  const body = lines.join('\n').replace(/(^|\s)@defaultValue\s[^]*$/, '');
  return body.split('\n').filter((line) => line !== '');
}

function inSource(value: unknown): string {
  if (typeof value === 'number') return value.toString().replace(/\B(?=(\d{3})+$)/g, '_');
  return typeof value === 'string' ? `'${value}'` : String(value);
}

function defaultOf({ entry }: Declared): string | undefined {
  if (entry.fields !== undefined) return entry.isSwitched === true ? 'false' : undefined;
  return entry.defaultText ?? inSource(entry.default);
}

function rangeOf({ entry: { range } }: Declared): string {
  return range === undefined ? '' : range.map(inSource).join(' to ');
}

/** A file of lib, with the default and the range at the end of each option's comment. */
function withDefaults(path: string, options: readonly Declared[]): string {
  const own = options
    .flatMap(withFields)
    .filter(({ file }) => file === path)
    .sort((one, other) => other.node.pos - one.node.pos);
  let source = readFileSync(join(projectRoot, path), 'utf8');
  for (const option of own) {
    const comment = commentOf(option.node);
    if (comment === undefined) continue;
    const { pos, end } = comment;
    source = source.slice(0, pos) + commentFor(option) + source.slice(end);
  }
  return source;
}

function commentFor(option: Declared): string {
  const body = bodyOf(option.node);
  const range = rangeOf(option);
  const text = defaultOf(option);
  const tag =
    text === undefined ? '' : `@defaultValue ${text}${range === '' ? '' : `, from ${range}`}`;
  const single = `  /** ${[...body, tag].join(' ').trim()} */`;
  if (body.length === 1 && single.length <= WIDTH) return single.trimStart();
  const lines = [...body, ...(tag === '' ? [] : wrapped(tag))];
  return ['/**', ...lines.map((line) => `   * ${line}`), '   */'].join('\n');
}

function wrapped(text: string): string[] {
  const lines: string[] = [''];
  for (const word of text.split(' ')) {
    const line = `${lines.at(-1) ?? ''} ${word}`.trimStart();
    if (`   * ${line}`.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = line;
  }
  return lines;
}

/** A comment as text of Markdown. */
function described({ node }: Declared): string {
  return bodyOf(node)
    .join(' ')
    .replace(/\{@link (\w+)\}/g, '`$1`');
}

const PLACES: Readonly<Record<string, string>> = {
  '': 'everywhere',
  module: 'module',
  'module,class,method': 'module, class, method',
  'class,method,call': 'class, method, call',
};

function withTable(options: readonly Declared[]): string {
  const page = readFileSync(join(projectRoot, DOCS), 'utf8');
  const [before, , after] = page.split(new RegExp(MARKERS.join('|')));
  const groups = options.filter(({ entry }) => entry.fields !== undefined);
  const alone = options.filter(({ entry }) => entry.fields === undefined);
  const parts = [
    '## Without a group',
    table(alone),
    ...groups.flatMap((group) => [
      `## \`${group.path}\``,
      `${described(group)} Where: ${placesOf(group)}.`,
      table(group.fields.flatMap(withFields)),
    ]),
  ];
  return `${before ?? ''}${MARKERS[0]}\n\n<!-- prettier-ignore-start -->\n\n${parts.join('\n\n')}\n\n<!-- prettier-ignore-end -->\n\n${MARKERS[1]}${after ?? ''}`;
}

function placesOf({ path, entry: { places = [] } }: Declared): string {
  const text = PLACES[places.join()];
  if (text === undefined) throw new Error(`The places of "${path}" have no name.`);
  return text;
}

function table(options: readonly Declared[]): string {
  const isGrouped = options.every(({ path }) => path.includes('.'));
  const head = ['Option', 'Type', 'Default', 'Range', ...(isGrouped ? [] : ['Where']), 'Meaning'];
  const rows = options.map((option) => {
    const { entry, node, path } = option;
    const text = entry.defaultText ?? `\`${defaultOf(option) ?? ''}\``;
    const where = isGrouped && entry.places !== undefined ? ` Where: ${placesOf(option)}.` : '';
    const type = node.type?.getText().replace(/\s+/g, ' ') ?? '';
    return [
      `\`${path.slice(path.indexOf('.') + 1)}\``,
      `\`${type}\``,
      text,
      rangeOf(option),
      ...(isGrouped ? [] : [placesOf(option)]),
      inBrief(described(option), 120) + where,
    ];
  });
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replace(/\|/g, String.raw`\|`)).join(' | ')} |`)
    .join('\n');
}
