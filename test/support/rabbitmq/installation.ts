import { readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { unpackServer, type Suite, type UnpackedServer } from '../provision/unpacked-server.js';
import { findExecutable, findServer } from '../servers/find-executable.js';

/** Debian's program on PATH changes to the user `rabbitmq`, who has no access here; this is the server's own. */
const DEBIAN_FOLDER = '/usr/lib/rabbitmq/bin';

/** The programs of an installation. */
export interface FoundRabbitMq {
  readonly server: string;
  readonly control: string;
  /** Erlang's register of nodes. */
  readonly epmd: string;
  /** The folder of its own Erlang, if that is not on PATH. */
  readonly erlang?: string;
}

/** The rabbitmq-server that RABBITMQ_SERVER_BIN names, else Debian's, else one on PATH; with an Erlang. */
export function findRabbitMq(): FoundRabbitMq | undefined {
  const server = findServer('rabbitmq-server', 'RABBITMQ_SERVER_BIN', [DEBIAN_FOLDER]);
  const epmd = findExecutable('epmd');
  if (server === undefined || epmd === undefined) return undefined;
  return { server, control: join(dirname(server), 'rabbitmqctl'), epmd };
}

/** A newer Debian's RabbitMQ with its Erlang, or undefined where the archive cannot be reached. */
export async function unpackRabbitMq(
  suite: Suite,
): Promise<(FoundRabbitMq & Pick<UnpackedServer, 'version' | 'remove'>) | undefined> {
  const unpacked = await unpackServer(suite, 'rabbitmq-server');
  if (unpacked === undefined) return undefined;
  const { root, version } = unpacked;
  const at = (path: string) => join(root, 'usr/lib', path);
  const erlang = at('erlang/bin');
  const erts = at(
    `erlang/${readdirSync(at('erlang')).find((name) => name.startsWith('erts-'))!}/bin`,
  );
  const programs = [...filesIn(erts), ...filesIn(at('erlang/lib')).filter(isPortProgram)];
  for (const path of programs.filter(isBinary)) unpacked.program(relative(root, path));
  for (const erl of [join(erlang, 'erl'), join(erts, 'erl')]) {
    const text = readFileSync(erl, 'utf8');
    writeFileSync(erl, text.replace('ROOTDIR=/usr/lib/erlang', `ROOTDIR=${at('erlang')}`));
  }
  for (const name of ['escript', 'erlc']) {
    rmSync(join(erlang, name), { force: true });
    symlinkSync(join(erts, name), join(erlang, name));
  }
  const sbin = at('rabbitmq/bin');
  return {
    server: join(sbin, 'rabbitmq-server'),
    control: join(sbin, 'rabbitmqctl'),
    epmd: join(erts, 'epmd'),
    erlang,
    version,
    remove: () => {
      unpacked.remove();
    },
  };
}

/** All that are no links. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
}

/** Whether Erlang starts it by its path. */
const isPortProgram = (path: string) => path.includes('/priv/bin/');

const isBinary = (path: string) => readFileSync(path).subarray(1, 4).equals(Buffer.from('ELF'));
