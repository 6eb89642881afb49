import { search } from '../../../lib/search.js';

export const dynamic = 'force-dynamic';

export async function GET(request) {
  const query = new URL(request.url).searchParams.get('q')?.trim();
  if (!query) return Response.json({ error: 'The query is missing: add ?q=TEXT.' }, { status: 400 });
  try {
    return Response.json(await search(query, request.signal));
  } catch (error) {
    return Response.json({ error: error.message }, { status: 500 });
  }
}
