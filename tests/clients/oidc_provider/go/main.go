// Logs a user in with coreos/go-oidc, which Kubernetes' API server and Grafana's plugins verify tokens by.
//
//	walk ADDRESS PROVIDER CLIENT_ID CLIENT_SECRET TOKEN_OF_THE_USER SCOPE
//
// The provider's ID token is verified as an API server would: by issuer and audience, against the key set; the browser is played by
// what the page does.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const callback = "http://127.0.0.1:8250/oidc/callback"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL", err)
		os.Exit(1)
	}
}

func must(what string, truth bool) {
	if !truth {
		fmt.Fprintln(os.Stderr, "FAIL", what)
		os.Exit(1)
	}
	fmt.Println("ok ", what)
}

func agree(address, page, token string) url.Values {
	parsed, err := url.Parse(page)
	check(err)
	path := strings.TrimPrefix(parsed.Path, "/ui/vault/")
	request, err := http.NewRequest("GET", address+"/v1/"+path+"?"+parsed.RawQuery, nil)
	check(err)
	request.Header.Set("X-Vault-Token", token)
	reply, err := http.DefaultClient.Do(request)
	check(err)
	defer reply.Body.Close()
	told := map[string]string{}
	check(json.NewDecoder(reply.Body).Decode(&told))
	values := url.Values{}
	for name, value := range told {
		values.Set(name, value)
	}
	return values
}

func main() {
	address, name, id, secret, token, scope := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	ctx := context.Background()
	provider, err := oidc.NewProvider(ctx, address+"/v1/identity/oidc/provider/"+name)
	check(err)
	must("go-oidc: discovery", provider.Endpoint().TokenURL != "")
	config := oauth2.Config{
		ClientID: id, ClientSecret: secret, RedirectURL: callback,
		Endpoint: provider.Endpoint(), Scopes: []string{oidc.ScopeOpenID, scope},
	}
	verifier := oauth2.GenerateVerifier()
	page := config.AuthCodeURL("state", oidc.Nonce("nonce"), oauth2.S256ChallengeOption(verifier))
	back := agree(address, page, token)
	must("go-oidc: the browser comes back with its state", back.Get("state") == "state" && back.Get("code") != "")
	tokens, err := config.Exchange(ctx, back.Get("code"), oauth2.VerifierOption(verifier))
	check(err)
	raw, _ := tokens.Extra("id_token").(string)
	verified, err := provider.Verifier(&oidc.Config{ClientID: id}).Verify(ctx, raw)
	check(err)
	check(verified.VerifyAccessToken(tokens.AccessToken))
	must("go-oidc: the ID token and the hash of the access token", verified.Nonce == "nonce" && verified.Subject != "")
	claims := struct{ Groups []string }{}
	check(verified.Claims(&claims))
	must("go-oidc: the groups claim", len(claims.Groups) == 1)
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	check(err)
	must("go-oidc: userinfo", info.Subject == verified.Subject)
	_, err = provider.Verifier(&oidc.Config{ClientID: "another"}).Verify(ctx, raw)
	must("go-oidc: a token for another audience is refused", err != nil)
}
