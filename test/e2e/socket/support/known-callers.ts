import type { OnGatewayConnection } from '@nestjs/websockets';

/** The part of a client that a test's gateway looks at; a request is what ws hands out besides. */
interface Connection {
  user?: object;
  readonly request?: { readonly url?: string };
}

/** Knows its callers by the address that they connect to: `?as=alice`. */
export abstract class KnownCallers implements OnGatewayConnection {
  handleConnection(client: Connection, request = client.request): void {
    const as = new URL(request?.url ?? '', 'http://localhost').searchParams.get('as');
    if (as !== null) client.user = { id: as };
  }
}
