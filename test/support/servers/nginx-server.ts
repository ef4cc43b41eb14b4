import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { findServer, requireServer } from './find-executable.js';
import { responses } from './responses.js';
import { startServer, type StartedServer } from './start-server.js';

const PROGRAM = ['nginx', 'NGINX_BIN'] as const;

/** The nginx that NGINX_BIN names, else one on PATH. */
export const findNginx = () => findServer(...PROGRAM);

/** Of requests to no upstream. */
const PING = Buffer.from('GET /-/ping HTTP/1.0\r\n\r\n');

/**
 * Starts a separate nginx on 127.0.0.1 in front of servers on these ports.
 *
 * @param settings - further lines of its `location`.
 */
export function startNginx(
  upstreams: readonly number[],
  settings: readonly string[] = [],
): Promise<StartedServer> {
  const program = requireServer(...PROGRAM);
  return startServer('nginx', {}, (port, dir) => {
    const file = join(dir, 'nginx.conf');
    writeFileSync(file, configuration(port, dir, upstreams, settings));
    return {
      program,
      args: ['-e', 'stderr', '-p', dir, '-c', file],
      readyLog: /start worker process \d+/,
      isReady: () => responses(port, PING, / 204 /),
      // SIGTERM would leave a request without its response.
      stopSignal: 'SIGQUIT',
    };
  });
}

function configuration(
  port: number,
  dir: string,
  upstreams: readonly number[],
  settings: readonly string[],
): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${join(dir, kind)};`,
  );
  // Without limit of failures: nginx would leave out a server for ten seconds after the first one.
  const servers = upstreams.map((each) => `server 127.0.0.1:${String(each)} max_fails=0;`);
  return `
daemon off;
user ${userInfo().username};
worker_processes 1;
pid ${join(dir, 'nginx.pid')};
error_log stderr notice;
events {}
http {
  access_log off;
  ${temporary.join('\n  ')}
  upstream app { ${servers.join(' ')} }
  server {
    listen 127.0.0.1:${String(port)};
    location = /-/ping { return 204; }
    location / {
      proxy_pass http://app;
      ${settings.join('\n      ')}
    }
  }
}
`;
}
