/**
 * Who may import whom in lib: a row names the folders that its own folder may import, and each of them has its row
 * above. So there is no circle of folders. A folder below another one has a row of its own; a file may stand for itself.
 */
const folders = {
  'core/errors': '',
  'core/util': 'core/errors',
  'core/options': 'core/{errors,util}',
  'core/record': 'core/{errors,options,util}',
  'core/meter': 'core/{errors,util,record}',
  'core/transaction': 'core/{errors,options,util}',
  'core/store/diagnosis': 'core/{errors,options,util,record}',
  'core/payload': 'core/{errors,options,util,record,transaction,store/diagnosis}',
  'core/store': 'core/{errors,options,util,record,transaction,payload,store/diagnosis}',
  'core/operation': 'core/{errors,options,util,record,payload,transaction}',
  'core/telemetry': 'core/{errors,util,record,meter}',
  'core/engine': 'core/{errors,options,util,record,payload,transaction,store,operation,telemetry}',
  'core/recovery': 'core/{errors,options,util,record,store,operation,engine}',
  'core/operator': 'core/{errors,options,util,record,operation,engine}',

  'codecs/plain': 'core/errors',
  'codecs/json': 'core/{errors,options,util,record} codecs/plain',
  'codecs/messagepack': 'core/record codecs/plain',

  'blobs/shared': 'core/{util,record,payload}',
  'blobs/file': 'core/{errors,options,util,record,store/diagnosis,payload} blobs/shared',
  'blobs/s3': 'core/{errors,options,util,record,store/diagnosis,payload} blobs/shared',

  'wrappers/breaker': 'core/{errors,options,util,record,store}',
  'stores/memory': 'core/{errors,options,util,record,store}',
  'stores/sqlite': 'core/{errors,options,util,record,store}',
  'stores/redis/link': 'core/{errors,util,store}',
  'stores/redis/ioredis': 'core/{errors,util,store} stores/redis/link',
  'stores/redis/scripts': 'core/{errors,util,record,store} stores/redis/link',
  'stores/redis/diagnosis':
    'core/{errors,util,record,store,store/diagnosis} stores/redis/{link,scripts}',
  'stores/redis':
    'core/{errors,options,util,record,store,store/diagnosis,operator} stores/redis/{link,ioredis,scripts,diagnosis}',
  'stores/redis/node-redis': 'core/{errors,options,util,store} stores/redis stores/redis/link',
  'stores/redis/valkey-glide': 'core/{errors,options} stores/redis stores/redis/link',
  'transactions/shared': 'core/{errors,util,transaction}',
  'stores/shared': 'core/{errors,options,util,record,store}',
  'stores/postgres/sql': 'core/options',
  'stores/postgres/connection':
    'core/{errors,util} transactions/shared stores/shared stores/postgres/sql',
  'stores/postgres/schema': 'core/errors transactions/shared stores/postgres/{sql,connection}',
  'stores/postgres/statements':
    'core/{errors,util,record,transaction,payload,store} blobs/shared transactions/shared stores/shared stores/postgres/{sql,connection}',
  'stores/postgres/cleanup': 'core/store stores/shared stores/postgres/{sql,connection,statements}',
  'stores/postgres/diagnosis':
    'core/{errors,util,record,store,store/diagnosis} transactions/shared stores/shared stores/postgres/{sql,connection,schema,statements}',
  'stores/postgres':
    'core/{errors,options,util,record,transaction,payload,store,store/diagnosis,operator} blobs/shared transactions/shared stores/shared stores/postgres/{sql,connection,schema,statements,cleanup,diagnosis}',

  'stores/mysql/sql': 'core/options',
  'stores/mysql/connection':
    'core/{errors,util} transactions/shared stores/shared stores/mysql/sql',
  'stores/mysql/statements':
    'core/{errors,util,record,transaction,store} transactions/shared stores/shared stores/mysql/{sql,connection}',
  'stores/mysql/schema': 'core/errors transactions/shared stores/mysql/{sql,connection,statements}',
  'stores/mysql/diagnosis':
    'core/{errors,store,store/diagnosis} stores/mysql/{sql,connection,schema,statements}',
  'stores/mysql':
    'core/{errors,options,util,record,store} transactions/shared stores/shared stores/mysql/{sql,connection,schema,statements,diagnosis}',

  transactions: 'core/transaction transactions/shared',
  'transactions/{drizzle,knex,kysely,mikro-orm,mysql2,pg,prisma,sequelize,typeorm}':
    'core/{errors,util,transaction} transactions/shared',

  'transports/common': 'core/{errors,options,util,record,operation}',
  'transports/http/response': 'core/{util,record,operation}',
  'transports/http/content': 'core/{errors,options,record} transports/common',
  'transports/http':
    'core/{errors,options,util,record,operation,telemetry,engine,recovery} transports/{common,http/content,http/response}',
  'transports/call':
    'core/{errors,options,util,record,operation,telemetry,engine,recovery} codecs/json transports/common',
  'transports/message/source': 'core/util',
  'transports/message/keys':
    'core/{options,util,record} transports/common transports/message/source',
  'transports/message/deliveries': 'core/{errors,util,operation} transports/message/source',
  'transports/message':
    'core/{errors,options,util,record,recovery} transports/{common,call} transports/message/{source,keys,deliveries}',
  'transports/graphql': 'core/{errors,util,record,operation,recovery} transports/{common,call}',
  'transports/websocket': 'core/{errors,options,util,record,recovery} transports/{common,call}',

  'observability/health': 'core/{errors,options,util,record,meter,store,store/diagnosis}',
  'observability/metrics': 'core/meter',

  'nest/options':
    'core/{errors,options,record,payload,transaction,store,operation,telemetry,recovery,operator} codecs/json wrappers/breaker transports/{common,http,message}',
  'nest/discovery':
    'core/{errors,options,util,record,operation} transports/{common,http,websocket} nest/options',
  'nest/registry':
    'core/{errors,options,record,meter,operation,recovery} transports/{common,http,call,message,message/source,message/deliveries,graphql,websocket} nest/{options,discovery}',
  nest: 'core/{errors,options,util,record,payload,meter,store,operation,telemetry,engine,recovery,operator} wrappers/breaker observability/health transports/{common,http,http/response,call,message,graphql,websocket} nest/{options,discovery,registry}',
  'index.ts':
    'core/{errors,options,record,payload,meter,store,operation,telemetry,recovery,operator} codecs/json observability/health transports/{common,http,http/response,message} transactions/index.ts wrappers/breaker nest nest/options',

  'observability/terminus': 'core/options observability/health',
  'observability/opentelemetry':
    'core/{errors,options,record,meter,telemetry} observability/metrics',
  'observability/prometheus': 'core/{errors,options,meter,telemetry} observability/metrics',
  console: 'core/{errors,options,record,meter,operator} nest',
  bullmq: 'core/errors',
  nestjs: 'core/{errors,options,util,record,store}',
  'cli/servers': 'core/{errors,util,store} stores/redis/index.ts stores/postgres/index.ts',
  'cli/doctor':
    'core/{errors,util,payload,store,store/diagnosis} blobs/file/index.ts blobs/s3 stores/redis/index.ts stores/postgres/index.ts cli/servers',
  'cli/operator':
    'core/{errors,options,util,record,payload,meter,operator} nest nest/options stores/redis/index.ts stores/postgres/index.ts cli/servers',
  cli: 'core/{errors,options,util,record,operator} core/store/diagnosis nest stores/postgres/{sql,schema} stores/postgres/own-pool.ts stores/postgres/index.ts stores/mysql/{sql,schema} stores/mysql/own-pool.ts stores/mysql/index.ts cli/{servers,doctor,operator}',
  swagger: 'core/{errors,operation} transports/{common,http} nest/{discovery,registry}',
  'testing/store/kit': 'core/{record,store,payload}',
  'testing/store/cases': 'core/{record,store,payload} testing/store/kit',
  'testing/store': 'testing/store/{kit,cases}',
  testing:
    'core/{errors,options,util,record,transaction,store,operation,engine} stores/memory transports/{common,http,http/response,call} nest nest/{options,discovery,registry}',
};

/** The packages that lib imports, in which folders (`a/**`: a and what is below), and in which ways, if not in all. */
const packages = {
  'safe-stable-stringify': { in: 'core/record' },
  '@nestjs/common': {
    in: 'transports/** nest/** nestjs observability/terminus console swagger testing',
  },
  '@nestjs/core': { in: 'nest/** console swagger' },
  '@nestjs/microservices': { in: 'transports/message', only: 'dynamic-import' },
  '@nestjs/websockets': { in: 'transports/websocket', only: 'dynamic-import' },
  '@nestjs/terminus': { in: 'observability/terminus' },
  '@opentelemetry/api': { in: 'observability/opentelemetry' },
  'prom-client': { in: 'observability/prometheus' },
  '@nestjs/swagger': { in: 'swagger', only: 'type-only' },
  rxjs: { in: 'transports/** nest/** testing' },
  ioredis: { in: 'stores/redis/ioredis cli/servers', only: 'dynamic-import' },
  redis: { in: 'stores/redis/node-redis', only: 'dynamic-import' },
  pg: { in: 'stores/postgres transactions/drizzle', only: 'dynamic-import type-only' },
  mysql2: { in: 'stores/mysql', only: 'dynamic-import' },
  '@aws-sdk/client-s3': { in: 'blobs/s3', only: 'dynamic-import type-only' },
  '@aws-sdk/lib-storage': { in: 'blobs/s3', only: 'dynamic-import type-only' },
  opossum: { in: 'wrappers/breaker', only: 'dynamic-import' },
  knex: { in: 'transactions/knex', only: 'type-only' },
  kysely: { in: 'transactions/kysely', only: 'type-only' },
  bullmq: { in: 'bullmq' },
  msgpackr: { in: 'codecs/messagepack' },
};

/** `a/{b,c} d` → a/b, a/c and d. */
const expand = (text) =>
  text
    .split(' ')
    .filter(Boolean)
    .flatMap((name) => {
      const [, head, parts] = /^(.*)\{(.*)\}$/.exec(name) ?? [];
      return parts === undefined ? [name] : parts.split(',').map((part) => head + part);
    });

/** Folder → what it may import. Throws where a row names a folder that has no row above it. */
function inOrder(rows) {
  const imports = new Map();
  for (const [row, text] of Object.entries(rows)) {
    const named = expand(text);
    const late = named.filter((name) => !imports.has(name.replace(/\/[^/]+\.ts$/, '')));
    if (late.length > 0) throw new Error(`The row of ${row} names ${late}: no row above it.`);
    for (const folder of expand(row)) imports.set(folder, named);
  }
  return imports;
}

const rows = inOrder(folders);

/** The same with `a/**` as well. */
const foldersOf = (text) =>
  expand(text).flatMap((name) =>
    name.endsWith('/**')
      ? [...rows.keys()].filter((folder) => `${folder}/`.startsWith(name.slice(0, -2)))
      : [name],
  );

module.exports = {
  inOrder,
  rows,
  packages: Object.entries(packages).map(([name, { in: users, only }]) => ({
    name,
    users: foldersOf(users),
    ways: only?.split(' '),
  })),
};
