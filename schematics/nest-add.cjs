const { posix } = require('node:path');
const { peerDependencies } = require('../package.json');

/** Each store's factory, where its records are by default, and the package of its driver. */
const STORES = {
  redis: {
    factory: 'redisStore',
    variable: 'REDIS_URL',
    place: 'redis://127.0.0.1:6379',
    option: 'url',
    driver: 'ioredis',
  },
  postgres: {
    factory: 'postgresStore',
    variable: 'DATABASE_URL',
    place: 'postgres://postgres@127.0.0.1:5432/postgres',
    option: 'url',
    driver: 'pg',
  },
  mysql: {
    factory: 'mysqlStore',
    variable: 'DATABASE_URL',
    place: 'mysql://root@127.0.0.1:3306/app',
    option: 'url',
    driver: 'mysql2',
  },
  sqlite: {
    factory: 'sqliteStore',
    variable: 'IDEMPOTENCY_FILE',
    place: 'idempotency.db',
    option: 'path',
  },
  memory: { factory: 'memoryStore' },
};

/**
 * `nest add nestjs-idempotency`: writes `idempotency.ts`, imports it in `app.module.ts`, lets `main.ts` shut down in
 * order, and adds the store's variable to `.env` and its driver to `package.json`. What it cannot change it names.
 *
 * @param {{ sourceRoot?: string, store?: keyof typeof STORES, service?: string }} options
 */
exports.nestAdd = function nestAdd({ sourceRoot = 'src', store = 'redis', service }) {
  return (tree, { logger }) => {
    const manifest = JSON.parse(textOf(tree, 'package.json'));
    const file = posix.join(sourceRoot, 'idempotency.ts');
    if (tree.exists(file)) throw new Error(`${file} is there already: nothing was changed.`);
    const name = service ?? manifest.name.replace(/^@[^/]+\//, '');
    const ending = manifest.type === 'module' ? '.js' : '';
    tree.create(file, sourceOf(store, name));

    const change = (path, done, by, otherwise) => {
      const full = posix.join(sourceRoot, path);
      const text = tree.exists(full) ? textOf(tree, full) : '';
      if (text.includes(done)) return;
      const changed = by(text);
      if (changed === text) logger.warn(`${full} was left as it is: ${otherwise}`);
      else tree.overwrite(full, changed);
    };
    change(
      'app.module.ts',
      "from './idempotency",
      (text) => withModule(text, ending),
      `import "idempotency" of "./idempotency${ending}", and add it to the imports of your module.`,
    );
    change(
      'main.ts',
      'enableShutdownHooks',
      withShutdownHooks,
      'call app.enableShutdownHooks() before app.listen().',
    );

    const { variable, place, driver } = STORES[store];
    if (variable !== undefined) addVariable(tree, variable, place);
    if (driver !== undefined && manifest.dependencies?.[driver] === undefined) {
      manifest.dependencies = { ...manifest.dependencies, [driver]: peerDependencies[driver] };
      tree.overwrite('package.json', `${JSON.stringify(manifest, null, 2)}\n`);
      logger.info(`${driver} was added to package.json: run the install of your package manager.`);
    }
    if (store === 'postgres' || store === 'mysql') {
      logger.info(
        'Make its tables by "npx nestjs-idempotency migrate", with --url or DATABASE_URL.',
      );
    }
    logger.info('Next: @Idempotent() on a route. "npx nestjs-idempotency docs payments" has one.');
  };
};

function textOf(tree, path) {
  return tree.read(path).toString('utf8');
}

function sourceOf(store, service) {
  const { factory, variable, place, option } = STORES[store];
  const call =
    variable === undefined
      ? `${factory}()`
      : `${factory}({\n    ${option}: process.env.${variable} ?? '${place}',\n  })`;
  const imports = [
    ...(variable === undefined ? [] : ["import { existsSync } from 'node:fs';"]),
    "import { IdempotencyModule } from 'nestjs-idempotency';",
    `import { ${factory} } from 'nestjs-idempotency/${store}';`,
  ];
  const environment =
    variable === undefined ? '' : "\nif (existsSync('.env')) process.loadEnvFile();\n";
  return `${imports.join('\n')}
${environment}
/** Keeps the outcomes of each @Idempotent() route and method. */
export const idempotency = IdempotencyModule.forRoot({
  service: '${service.replaceAll("'", String.raw`\'`)}',
  store: ${call},
});
`;
}

/** After the last import, and first in the imports of the first module. */
function withModule(text, ending) {
  const imports = [...text.matchAll(/^import [^;]+;$/gm)];
  const last = imports.at(-1);
  const [found, head, blanks, close] = /(@Module\(\{[^]*?\bimports: \[)(\s*)(\]?)/.exec(text) ?? [];
  if (last === undefined || !text.includes('@Module({')) return text;
  const listed =
    found === undefined
      ? text.replace('@Module({', '@Module({\n  imports: [idempotency],')
      : text.replace(found, () =>
          close === ']' ? `${head}idempotency]` : `${head}${blanks}idempotency,${blanks || ' '}`,
        );
  const end = last.index + last[0].length;
  const line = `\nimport { idempotency } from './idempotency${ending}';`;
  return `${text.slice(0, end)}${line}${listed.slice(end)}`;
}

function withShutdownHooks(text) {
  return text.replace(
    /^( *)const app = await NestFactory\.create[^;]*;\n/m,
    '$&$1app.enableShutdownHooks();\n',
  );
}

function addVariable(tree, variable, place) {
  const text = tree.exists('.env') ? textOf(tree, '.env') : '';
  if (new RegExp(`^${variable}=`, 'm').test(text)) return;
  const before = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  const changed = `${before}${variable}=${place}\n`;
  if (tree.exists('.env')) tree.overwrite('.env', changed);
  else tree.create('.env', changed);
}
