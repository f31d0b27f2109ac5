// Riffle on a phone: one device, whose records stay in it. Never compiled yet, nor run: see clients/ios/README.md.
import CRiffle
import CryptoKit
import Foundation

public typealias JSON = [String: Any]

public enum RiffleError: Error {
    case library(reason: String, sentence: String) // reason is one of the words that cmd/libriffle lists
    case server(status: Int) // 0: it was not reached
    case system(String)
}

/// One device. The configuration is as for a web page: {"ingress", "issuer", perhaps "mailbox": addresses, "bundle":
/// bundle.json of the deployment, "limits": the person's, perhaps "witnesses", "quorum", and "begin": {"proof",
/// "announcement"} by which it joins late}. Calls wait for the network: make them off the main thread. Whatever a
/// request promises is on the disk before the request leaves.
public final class Riffle {
    private let config: JSON
    private let file: URL
    private let login: () -> String // the header Authorization by which issuer and mailbox know the person's account
    private var state: JSON = [:]
    private var handle: Int64 = 0 // of the library's device; 0 before there is a credential
    private let lock = NSRecursiveLock()

    /// The folder is the app's alone. It goes into no backup: a restored state would report for the person twice.
    public init(_ configuration: Data, folder: URL, login: @escaping () -> String) throws {
        config = try object(configuration)
        self.login = login
        file = folder.appendingPathComponent("riffle.json")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        if FileManager.default.fileExists(atPath: file.path) { state = try object(Data(contentsOf: file)) }
        if state["credential"] != nil { try start() }
    }

    deinit { riffle_close(handle) }

    /// Decides. The question is called once the device has a place in the cohort or none, as this must not depend on
    /// it: {"context": {...}, "arms": [...], "default": index, "exclude": [index, ...]}. The result has "arm" and
    /// "sampled". Before the first policy, and after an opt-out, it is the default arm.
    public func decide(_ question: () throws -> JSON) throws -> JSON {
        lock.lock(); defer { lock.unlock() }
        if takesPart, try arrival() { try unlessOffline { try enrol() } }
        let q = try question()
        var set: JSON = ["default": q["default"] ?? 0, "exclude": q["exclude"] ?? [Any](), "arms": q["arms"] ?? [Any]()]
        let byDefault: JSON = ["arm": q["default"] ?? 0, "sampled": false]
        guard takesPart else { return byDefault }
        do {
            let asked = try text(["context": q["context"] ?? JSON(), "arms": set["arms"]!])
            set["arms"] = try JSONSerialization.jsonObject(with: call(asked) { riffle_encode(handle, $0) })
        } catch RiffleError.library("no_policy", _) {
            return byDefault
        } catch RiffleError.library("no_schema", _) {} // the arms are vectors
        let decision = try object(call(text(set)) { riffle_decide(handle, $0) })
        try save()
        return decision
    }

    /// Takes the reward of a decision, which the app may keep over a restart. What comes late is not used.
    public func reward(_ decision: JSON, _ reward: Double) throws -> JSON {
        lock.lock(); defer { lock.unlock() }
        guard takesPart, decision["sampled"] as? Bool == true else { return ["accepted": false] }
        do {
            let of = UInt64(number(decision["handle"]))
            let answer = try object(taken(riffle_reward(handle, of, reward, now())))
            if var report = state["report"] as? JSON { // else the report is made when it is due
                report["body"] = try taken(riffle_deposit(handle, now())).base64EncodedString()
                state["report"] = report
                try unlessOffline { try deposit() }
            }
            try save()
            return answer
        } catch RiffleError.library("late", _) {
            return ["accepted": false]
        }
    }

    /// What the device knows of the deployment, with the guarantee as the device computed it.
    public func status() throws -> JSON {
        lock.lock(); defer { lock.unlock() }
        var s = handle == 0 ? JSON() : try object(taken(riffle_status(handle)))
        s["opted_out"] = out
        s["trouble"] = state["trouble"] // why the last sync came to an end
        return s
    }

    /// What was promised and spent for this person.
    public func ledger() throws -> JSON { try status()["ledger"] as? JSON ?? [:] }

    /// Ends taking part, or begins again. A promised report still leaves: that of somebody with nothing to report.
    public func optOut(_ yes: Bool = true) throws {
        lock.lock(); defer { lock.unlock() }
        state["out"] = yes
        if var r = state["report"] as? JSON { r["body"] = r["null"]; state["report"] = r }
        if handle != 0 { _ = try taken(riffle_forget(handle)) }
        try save()
        if !yes { Job.wake(at: now()) }
    }

    /// What the system's job runs: sends the report that is due, follows the deployment, and asks for the next job.
    public func sync() {
        lock.lock(); defer { lock.unlock() }
        do {
            try unlessOffline { try report() }
            try unlessOffline { if !out { try follow() } }
            state["trouble"] = nil
        } catch {
            state["trouble"] = "\(error)"
        }
        try? save()
        let due = try? self.due()
        if due == nil && out { return }
        Job.wake(at: min(max(due ?? Int64.max, now() + 60_000), now() + 3_600_000))
    }

    private func follow() throws {
        let ends = try handle == 0 || number(status()["epoch"]) >= number(state["not_after"])
        if try ends && due() == nil { try credential() }
        if try round() == "0.0", let b = config["begin"] as? JSON {
            let proof = "\(b["proof"] ?? "")"
            _ = try call(data(b["announcement"])) { a, n in
                proof.withCString { riffle_begin(handle, chars($0), a, n) } }
        }
        _ = try call(http("GET", "ingress", "keys")) { riffle_keys(handle, $0, $1) }
        var chain = try http("GET", "ingress", "announcements?wait=0&after=" + round())
        while chain.count >= 4 {
            let size = chain.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            _ = try call(Data(chain.dropFirst(4).prefix(size))) { riffle_follow(handle, $0, $1, now()) }
            chain = Data(chain.dropFirst(4 + size))
        }
        try save()
        if try arrival() || status()["refused"] != nil { return }
        if try status()["registered"] as? Bool != true {
            try ask(riffle_register(handle)) { riffle_registered(handle, $0, $1) }
        }
        try ask(riffle_enrol(handle, now())) { riffle_answer(handle, $0, $1, now()) }
    }

    /// Asks for a place, and keeps the null record's report, sealed, for the time at which it is due.
    private func enrol() throws {
        try ask(riffle_enrol(handle, now())) { riffle_answer(handle, $0, $1, now()) }
        guard state["report"] == nil, let due = try due() else { return }
        try keep(taken(riffle_deposit(handle, now())), due)
        try deposit()
        Job.wake(at: due)
    }

    private func ask(_ request: riffle_result, _ reply: (UnsafeMutableRawPointer?, Int) -> riffle_result) throws {
        do {
            let sealed = try taken(request)
            try save()
            _ = try call(http("POST", "ingress", "enrolments", sealed), reply)
        } catch RiffleError.library(let reason, _) where reason == "no_place" || reason == "unopened" {}
        try save()
    }

    /// Has the mailbox hold the report, where there is one; else the phone holds it.
    private func deposit() throws {
        try save()
        guard var report = state["report"] as? JSON else { return }
        if config["mailbox"] != nil {
            _ = try http("PUT", "mailbox", "deposits/\(report["round"]!)/\(report["slot"]!)", data(report["body"]),
                         ["Riffle-Ticket": "\(report["ticket"]!)", "Riffle-Due": "\(report["due"]!)",
                          "Authorization": login()])
            report["held"] = report["body"]
            state["report"] = report
        }
        _ = try taken(riffle_deposited(handle))
        try save()
    }

    private func due() throws -> Int64? {
        if let report = state["report"] as? JSON { return number(report["due"]) }
        guard let at = try status()["report_at"] as? String else { return nil }
        let second = at.replacingOccurrences(of: "\\.[0-9]+", with: "", options: .regularExpression)
        return ISO8601DateFormatter().date(from: second).map { (Int64($0.timeIntervalSince1970) + 1) * 1000 }
    }

    private func report() throws {
        guard let due = try due() else { return }
        if due <= now() && state["report"] == nil { try keep(taken(riffle_report(handle, now())), due) }
        guard let report = state["report"] as? JSON else { return }
        if due > now() {
            if config["mailbox"] != nil, report["held"] as? String != report["body"] as? String { try deposit() }
            return
        }
        let body = data(report["body"])
        let name = SHA256.hash(data: body).map { String(format: "%02x", $0) }.joined()
        do {
            if report["held"] == nil {
                _ = try http("PUT", "ingress", "reports/\(report["round"]!)/\(name)", body,
                             ["Riffle-Ticket": "\(report["ticket"]!)"])
            }
        } catch RiffleError.server(let status) where (400..<500).contains(status) && status != 408 && status != 429 {}
        state["report"] = nil // another failure leaves it for the next job
        _ = try taken(riffle_forget(handle)) // what was not rewarded
        try save()
    }

    /// Makes a report durable together with the state in which the device cannot make it again.
    private func keep(_ body: Data, _ due: Int64) throws {
        let place = try status()["place"] as? JSON ?? [:], slot = number(place["slot"])
        let sealed = body.base64EncodedString(), ticket = base64url(data(place["ticket"])) + ".\(slot)"
        state["report"] = ["round": try round(), "slot": slot, "ticket": ticket, "due": due, "null": sealed,
                           "body": sealed] as JSON
        try save()
    }

    /// Gets the installation's credential, or its next one. The key is kept before the issuer hears of it.
    private func credential() throws {
        if state["key"] == nil { // a new name: the keychain outlives an app that is deleted, and the state does not
            let name = UUID().uuidString
            try Keychain.add(name, Curve25519.Signing.PrivateKey().rawRepresentation)
            state["key"] = name
            try save()
        }
        let key = try Curve25519.Signing.PrivateKey(rawRepresentation: seed()).publicKey.rawRepresentation
        let given = try object(http("POST", "issuer", "credentials", Data(text(["key": base64url(key)]).utf8),
                                    ["Authorization": login(), "Content-Type": "application/json"]))
        for k in ["credential", "not_after"] { state[k] = given[k] }
        try save()
        try start()
    }

    private func start() throws {
        riffle_close(handle)
        let of = config["bundle"] as? JSON ?? [:]
        var opening: JSON = ["deployment": of["deployment"] ?? "", "number": 0, "analyzer": "\(of["analyzer"] ?? "")=",
                             "shuffler": "\(of["shuffler"] ?? "")=", "identity": try seed().base64EncodedString(),
                             "credential": state["credential"] ?? ""]
        for k in ["limits", "witnesses", "quorum"] { opening[k] = config[k] }
        let saved = data(state["saved"])
        let opened = try text(opening).withCString { json in
            saved.withUnsafeBytes { riffle_open(chars(json), raw($0.baseAddress), $0.count) }
        }
        handle = opened.handle; _ = try taken(opened)
    }

    private var out: Bool { state["out"] as? Bool == true }
    private var takesPart: Bool { handle != 0 && !out }
    private func arrival() throws -> Bool { try status()["mode"] as? String == "arrival" }
    private func round() throws -> String { let s = try status(); return "\(number(s["epoch"])).\(number(s["round"]))" }
    private func seed() throws -> Data { try Keychain.get(state["key"] as? String ?? "") }
    private func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
    /// Replaces the file in one step.
    private func save() throws {
        if handle != 0 { state["saved"] = try taken(riffle_save(handle)).base64EncodedString() }
        let options: Data.WritingOptions = [.atomic, .completeFileProtectionUntilFirstUserAuthentication]
        try Data(text(state).utf8).write(to: file, options: options)
        var place = file, flags = URLResourceValues(); flags.isExcludedFromBackup = true
        try place.setResourceValues(flags)
    }

    private func http(_ method: String, _ of: String, _ path: String, _ body: Data? = nil,
                      _ headers: [String: String] = [:]) throws -> Data {
        guard let at = config[of] as? String, let url = URL(string: at + "/v1/" + path) else {
            throw RiffleError.system("the configuration has no address of the \(of)")
        }
        var request = URLRequest(url: url, timeoutInterval: 30), answer: (Data?, Int) = (nil, 0)
        request.httpMethod = method; request.httpBody = body; request.allHTTPHeaderFields = headers
        let done = DispatchSemaphore(value: 0)
        URLSession.shared.dataTask(with: request) { data, response, _ in
            answer = (data, (response as? HTTPURLResponse)?.statusCode ?? 0); done.signal()
        }.resume()
        done.wait()
        let right = answer.1 == (method == "PUT" ? 204 : 200) // others are somebody else's, as of a login page
        guard right else { throw RiffleError.server(status: answer.1) }
        return answer.0 ?? Data()
    }
}

/// Without the network, or with a server that refuses, the next call tries again.
private func unlessOffline(_ f: () throws -> Void) throws { do { try f() } catch RiffleError.server {} }

/// The bytes of a result, which goes back to the library.
private func taken(_ r: riffle_result) throws -> Data {
    defer { riffle_free(r) }
    if let e = r.error { throw RiffleError.library(reason: String(cString: r.reason), sentence: String(cString: e)) }
    return r.data.map { Data(bytes: $0, count: r.size) } ?? Data()
}

private func call(_ text: String, _ f: (UnsafeMutablePointer<CChar>?) -> riffle_result) throws -> Data {
    try taken(text.withCString { f(chars($0)) })
}
private func call(_ bytes: Data, _ f: (UnsafeMutableRawPointer?, Int) -> riffle_result) throws -> Data {
    try taken(bytes.withUnsafeBytes { f(raw($0.baseAddress), $0.count) })
}

// The header that Go writes has no const. The library keeps and changes nothing.
private func chars(_ p: UnsafePointer<CChar>) -> UnsafeMutablePointer<CChar> { UnsafeMutablePointer(mutating: p) }
private func raw(_ p: UnsafeRawPointer?) -> UnsafeMutableRawPointer? { UnsafeMutableRawPointer(mutating: p) }
private func object(_ json: Data) throws -> JSON { try JSONSerialization.jsonObject(with: json) as? JSON ?? [:] }
private func text(_ json: JSON) throws -> String {
    String(decoding: try JSONSerialization.data(withJSONObject: json), as: UTF8.self)
}
private func number(_ value: Any?) -> Int64 { (value as? NSNumber)?.int64Value ?? 0 }
private func data(_ base64: Any?) -> Data { (base64 as? String).flatMap { Data(base64Encoded: $0) } ?? Data() }
private func base64url(_ b: Data) -> String {
    zip("+/=", ["-", "_", ""]).reduce(b.base64EncodedString()) { $0.replacingOccurrences(of: String($1.0), with: $1.1) }
}
