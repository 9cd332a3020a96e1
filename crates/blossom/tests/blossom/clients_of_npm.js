// Two clients of the media store do what applications do with them, and print what they have seen.
const [, packages, server] = process.argv;

const { randomBytes } = await import('node:crypto');

const outcome = async (promise) => {
    try {
        return await promise;
    } catch (error) {
        return `${error.status ?? ''} ${error.message}`.trim();
    }
};

// Signs as a browser's extension does.
const signer = async () => {
    const { finalizeEvent, generateSecretKey, getPublicKey } = await import(`${packages}/nostr-tools/lib/esm/pure.js`);
    const secret = generateSecretKey();
    const sign = async (draft) => finalizeEvent(draft, secret);
    return { sign, pubkey: getPublicKey(secret) };
};

const sdk = async () => {
    const client = await import(`${packages}/blossom-client-sdk/lib/index.js`);
    const { Actions } = client;
    const { sign, pubkey } = await signer();
    const file = new Blob([randomBytes(700_000)], { type: 'image/png' });
    const hash = await client.getBlobSha256(file);
    const onAuth = async (server, sha256, type) => client.createUploadAuth(sign, sha256, { type });
    const seen = { before: await Actions.hasBlob(server, hash) };
    const created = await Actions.uploadBlob(server, file, { onAuth });
    seen.created = { ...created, sha256: created.sha256 === hash, url: created.url.endsWith(`/${hash}.png`) };
    seen.again = (await Actions.uploadBlob(server, file, { onAuth, auth: true })).uploaded === created.uploaded;
    seen.after = await Actions.hasBlob(server, hash);
    const scoped = await client.createUploadAuth(sign, hash, { servers: [server] });
    seen.scoped = (await Actions.uploadBlob(server, file, { auth: scoped })).size;
    const elsewhere = await client.createUploadAuth(sign, hash, { servers: ['https://cdn.example.com'] });
    seen.elsewhere = (await fetch(new URL('/upload', server), {
        method: 'PUT', body: file, headers: { Authorization: client.encodeAuthorizationHeader(elsewhere) },
    })).status;
    const got = await Actions.downloadBlob(server, hash);
    seen.got = [got.headers.get('content-type'), await client.getBlobSha256(await got.blob()) === hash];
    const second = new Blob(['second'], { type: 'text/plain' });
    await Actions.uploadBlob(server, second, { onAuth });
    const listAuth = async () => client.createListAuth(sign);
    seen.listed = (await Actions.listBlobs(server, pubkey, { onAuth: listAuth })).length;
    seen.pages = 0;
    for await (const page of Actions.iterateBlobs(server, pubkey, { onAuth: listAuth, limit: 1 })) seen.pages += page.length;
    const report = await sign({
        kind: 1984, created_at: Math.floor(Date.now() / 1000), content: 'a test', tags: [['x', hash, 'other']],
    });
    seen.reported = (await Actions.reportBlobs([server], report)).get(server);
    const large = new Blob([new Uint8Array(2_000_001)]);
    seen.large = await outcome(Actions.uploadBlob(server, large, { onAuth, auth: true }));
    seen.mirrored = (await Actions.multiServerUpload([server], new Blob(['many']), { onAuth })).get(server).size;
    const deleteAuth = async (server, sha256) => client.createDeleteAuth(sign, sha256);
    seen.deleted = await Actions.deleteBlob(server, hash, { onAuth: deleteAuth });
    seen.gone = await Actions.hasBlob(server, hash);
    return seen;
};

const nostrTools = async () => {
    const { BlossomClient } = await import(`${packages}/nostr-tools/lib/esm/nipb7.js`);
    const { sign, pubkey } = await signer();
    const client = new BlossomClient(server, { getPublicKey: async () => pubkey, signEvent: sign });
    const file = new File([randomBytes(100_000)], 'a.webp', { type: 'image/webp' });
    const created = await client.uploadFile(file);
    const seen = { type: created.type, size: created.size };
    await client.check(created.sha256);
    seen.got = (await client.download(created.sha256)).byteLength;
    seen.listed = (await client.list()).map((blob) => blob.sha256 === created.sha256);
    await client.delete(created.sha256);
    seen.gone = (await outcome(client.check(created.sha256))).includes('404');
    return seen;
};

console.log(JSON.stringify({ sdk: await sdk(), nostrTools: await nostrTools() }));
