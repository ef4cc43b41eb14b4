import type { CanActivate, ExecutionContext } from '@nestjs/common';

/** Sets `request.user` from a bearer token that is the user as JSON. Requests without a token are anonymous. */
export class BearerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ headers: any; user?: object }>();
    const [, user] = /^Bearer (.+)$/.exec(String(request.headers.authorization)) ?? [];
    if (user !== undefined) request.user = JSON.parse(user) as object;
    return true;
  }
}

export interface Sent {
  readonly key: string;
  readonly as?: object;
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Got {
  readonly status: number;
  readonly replayed: boolean;
  readonly headers: Headers;
  readonly body: any;
}

/** Posts JSON to an application on this port. */
export async function post(port: number, path: string, sent: Sent): Promise<Got> {
  const { key, as, json = {}, headers } = sent;
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'idempotency-key': `"${key}"`,
      ...(as === undefined ? {} : { authorization: `Bearer ${JSON.stringify(as)}` }),
      ...headers,
    },
    body: JSON.stringify(json),
  });
  return {
    status: response.status,
    replayed: response.headers.get('idempotent-replayed') === 'true',
    headers: response.headers,
    body: await response.json(),
  };
}
