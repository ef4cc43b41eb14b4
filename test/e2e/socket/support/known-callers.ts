import type { OnGatewayConnection } from '@nestjs/websockets';

/** The part of a client that a test's gateway reads; with ws the request is a separate argument. */
interface Connection {
  user?: object;
  readonly request?: { readonly url?: string };
}

/** Identifies callers by the address that they connect to: `?as=alice`. */
export abstract class KnownCallers implements OnGatewayConnection {
  handleConnection(client: Connection, request = client.request): void {
    const as = new URL(request?.url ?? '', 'http://localhost').searchParams.get('as');
    if (as !== null) client.user = { id: as };
  }
}
