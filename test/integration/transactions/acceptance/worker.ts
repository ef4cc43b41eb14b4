import { adapterNames, adapterOf } from '../adapters/index.js';
import { mysqlAdapterNames, openOnMysql } from '../mysql/adapters.js';
import { isOnMysql, startEffectsApp, type OpenedLibrary } from './effects-app.js';

const CONNECTIONS = 4;

/** A process with an application for each adapter, on the database of the given URL. */
const [, , url] = process.argv;
process.on('disconnect', () => process.exit());
type Open = (url: string, connections: number) => Promise<OpenedLibrary>;
const libraries: readonly (readonly [string, Open])[] = isOnMysql(url!)
  ? mysqlAdapterNames.map((name) => [name, openOnMysql(name)] as const)
  : adapterNames.map((name) => [name, (...place) => adapterOf(name).open(...place)] as const);
const ports = await Promise.all(
  libraries.map(async ([name, open]) => {
    const opened = await open(url!, CONNECTIONS);
    return [name, await startEffectsApp(url!, opened)];
  }),
);
process.send!({ ports: Object.fromEntries(ports) });
