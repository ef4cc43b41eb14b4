import { createServer } from 'node:http';

let listener;
let keeper;

/** Before the first test file: it costs nothing until a file requests a server. */
export default async function setUp() {
  listener = createServer((request, response) => {
    void provide(request.url).then(
      (lent) => response.end(JSON.stringify(lent)),
      (error) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
  process.env.SHARED_SERVERS_URL = `http://127.0.0.1:${listener.address().port}`;
}

export async function tearDown() {
  await new Promise((resolve) => listener.close(resolve));
  await (await keeper)?.stop();
  keeper = undefined;
}

async function provide(path) {
  keeper ??= makeKeeper();
  const [, kind, worker] = path.split('/');
  return (await keeper).provide(kind, worker);
}

async function makeKeeper() {
  await import('../../typescript/register.mjs');
  const { Keeper } = await import('./keeper.ts');
  return new Keeper();
}
